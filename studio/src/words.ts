// Formats numbers for people: rates, shares, durations, times of day.

export function rateOf(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value.toFixed(1);
}

export function shareOf(value: number): string {
  return `${Math.round(value * 100)} %`;
}

export function timeOf(seconds: number): string {
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.1 ? 1 : 0)} ms`;
  return `${seconds.toFixed(seconds < 100 ? 2 : 0)} s`;
}

export function clockOf(when: Date): string {
  return when.toTimeString().slice(0, 8);
}
