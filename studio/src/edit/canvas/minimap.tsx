// The whole picture in small, with the visible part. A press moves the visible part there.

import type { Picture } from "../view";
import type { Size, Viewport } from "./viewport";

const [WIDE, HIGH] = [176, 112];

interface Props {
  picture: Picture;
  viewport: Viewport;
  size: Size;
  selected: string[];
  onViewport: (viewport: Viewport) => void;
}

export function Minimap(props: Props) {
  const { picture, viewport, size } = props;
  const seen = { x: -viewport.x / viewport.k, y: -viewport.y / viewport.k, width: size.width / viewport.k, height: size.height / viewport.k };
  const isWhole = seen.x <= picture.x && seen.y <= picture.y && seen.x + seen.width >= picture.x + picture.width && seen.y + seen.height >= picture.y + picture.height;
  if (isWhole || !size.width) return null;
  const scale = Math.min(WIDE / picture.width, HIGH / picture.height);
  const go = (event: PointerEvent) => {
    if (event.buttons !== 1) return;
    const frame = (event.currentTarget as Element).getBoundingClientRect();
    const x = picture.x + (event.clientX - frame.left) / scale;
    const y = picture.y + (event.clientY - frame.top) / scale;
    props.onViewport({ ...viewport, x: size.width / 2 - x * viewport.k, y: size.height / 2 - y * viewport.k });
  };
  return (
    <svg
      class="minimap"
      width={picture.width * scale}
      height={picture.height * scale}
      viewBox={`${picture.x} ${picture.y} ${picture.width} ${picture.height}`}
      aria-hidden="true"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        go(event);
      }}
      onPointerMove={go}
    >
      {picture.boxes.map((box) => (
        <rect key={box.name} class={props.selected.includes(box.name) ? "spot selected" : "spot"} x={box.x} y={box.y} width={box.width} height={box.height} />
      ))}
      <rect class="seen" {...seen} vector-effect="non-scaling-stroke" />
    </svg>
  );
}
