// A distribution as bars with names and values.

export type Bar = [name: string, value: number, text: string, colour?: string];

export function Bars(props: { bars: Bar[]; whole?: number }) {
  const whole = props.whole ?? Math.max(1e-9, ...props.bars.map(([, value]) => value));
  return (
    <ul class="bars">
      {props.bars.map(([name, value, text, colour]) => (
        <li key={name}>
          <span>{name}</span>
          <span class="track" aria-hidden="true">
            <span class={colour ?? "busy"} style={{ width: `${Math.min(100, (value / whole) * 100)}%` }} />
          </span>
          <span class="value">{text}</span>
        </li>
      ))}
    </ul>
  );
}
