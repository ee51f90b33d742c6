// Formats numbers for people: rates, shares, durations, bytes, times of day.

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
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(Math.round(seconds) / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds) % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function bytesOf(value: number): string {
  return value < 1e9 ? `${Math.round(value / 1e6)} MB` : `${(value / 1e9).toFixed(1)} GB`;
}

export function clockOf(when: Date): string {
  return when.toTimeString().slice(0, 8);
}
