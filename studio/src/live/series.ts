// The figures of the last 30 minutes, in memory of a fixed size.

import type { Frame } from "./frame";

/** The figures of a sample, in the order of the server's `history` event. */
export const COLUMNS = ["time", "rate", "p50", "p99", "inside", "errors", "cpu", "memory"] as const;
export type Column = (typeof COLUMNS)[number];
export type Sample = (number | null)[];

// Half an hour, at two samples a second, with the samples of the server before.
const ROOM = 4096;
const WIDTH = COLUMNS.length;

/** A ring of samples. The oldest give way to new ones. */
export class Series {
  private values = new Float64Array(ROOM * WIDTH);
  private count = 0;
  private ahead = Number.NaN;

  /** The time of the newest sample, on the server's clock. NaN without samples. */
  get last(): number {
    return this.count ? this.get(this.count - 1, 0) : Number.NaN;
  }

  /** Adds the server's samples that are newer than all samples here. */
  begin(samples: Sample[]): void {
    for (const sample of samples) if (!(sample[0]! <= this.last)) this.push(sample);
  }

  add(frame: Frame): void {
    if (frame.time < this.last) this.count = 0; // the clock of another machine
    const ahead = Date.now() / 1e3 - frame.time;
    if (!(Math.abs(ahead - this.ahead) < 2)) this.ahead = ahead; // kept, so that no time of day jumps
    if (frame.time === this.last) return;
    const { latency, machine } = frame;
    this.push([frame.time, frame.rate, latency?.p50 ?? null, latency?.p99 ?? null, frame.inside, frame.errors, machine.cpu ?? null, machine.memory ?? null]);
  }

  /** Returns the time of day for a time of the server's clock. */
  day(time: number): Date {
    return new Date((time + this.ahead) * 1e3);
  }

  /** Returns the means of a column in `bins` equal parts of a time. NaN marks a part without values. */
  means(column: Column, from: number, to: number, bins: number): Float64Array {
    const place = COLUMNS.indexOf(column);
    const sums = new Float64Array(bins);
    const counts = new Uint16Array(bins);
    for (let one = this.find(from); one < this.count; one++) {
      const bin = Math.floor(((this.get(one, 0) - from) / (to - from)) * bins);
      const value = this.get(one, place);
      if (bin >= bins) break;
      if (bin < 0 || Number.isNaN(value)) continue;
      sums[bin]! += value;
      counts[bin]!++;
    }
    return sums.map((sum, bin) => sum / counts[bin]!);
  }

  /** Returns the last value of a column at a time; NaN if there is none. */
  at(column: Column, time: number): number {
    const one = this.find(time + 1e-9) - 1;
    return one < Math.max(0, this.count - ROOM) ? Number.NaN : this.get(one, COLUMNS.indexOf(column));
  }

  private get(one: number, place: number): number {
    return this.values[(one % ROOM) * WIDTH + place]!;
  }

  private push(sample: Sample): void {
    const start = (this.count++ % ROOM) * WIDTH;
    for (let place = 0; place < WIDTH; place++) this.values[start + place] = sample[place] ?? Number.NaN;
  }

  /** Returns the first sample at or after a time. */
  private find(time: number): number {
    let low = Math.max(0, this.count - ROOM);
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.get(middle, 0) < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
