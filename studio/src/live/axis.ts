// Scales with round ends, and places on them.

/** Returns the next 1, 2 or 5 times a power of ten, so that a scale changes seldom. */
export function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= value)!;
}

/** Returns a share as a length of CSS. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(2)}%`;
}
