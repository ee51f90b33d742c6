// The pane of the picture: the canvas, the minimap, and the search.

import type { RefObject } from "preact";
import { useEffect } from "preact/hooks";
import type { Frame } from "../../live/frame";
import * as actions from "../actions";
import { FindBar } from "../dialogs/find";
import type { Spot } from "../panels/source";
import type { View } from "../view";
import { Canvas, type Wish } from "./canvas";
import { Minimap } from "./minimap";
import type { Size, Viewport } from "./viewport";

interface Props {
  desk: actions.Desk;
  view: View;
  text: string;
  frame: Frame | null;
  connecting: string;
  viewport: Viewport;
  size: Size;
  isFinding: boolean;
  stage: RefObject<HTMLDivElement | null>;
  onViewport: (viewport: Viewport) => void;
  onSize: (size: Size) => void;
  onWish: (wish: Wish) => void;
  onAdd: (unit: string, wish: Wish) => void;
  onOpen: () => void;
  onSpot: (spot: Spot) => void;
  onFound: () => void;
}

export function Stage(props: Props) {
  const { desk, stage } = props;
  const { picture } = desk;
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => props.onSize({ width: entry!.contentRect.width, height: entry!.contentRect.height }));
    observer.observe(stage.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <div
      class="stage"
      ref={stage}
      tabindex={-1}
      onFocusIn={(event) => {
        const name = (event.target as Element).getAttribute("data-body");
        if (name && (event.target as Element).matches(":focus-visible")) desk.reveal([name]);
      }}
    >
      {picture ? (
        <Canvas
          picture={picture}
          findings={props.view.findings}
          frame={props.frame}
          selected={desk.chosen}
          wire={desk.chosenWire}
          connecting={props.connecting}
          viewport={props.viewport}
          onViewport={props.onViewport}
          onSelect={desk.select}
          onMove={(places, into) => actions.move(desk, places, into)}
          onConnect={(...ends) => actions.connect(desk, ...ends)}
          onWish={props.onWish}
          onDropUnit={(unit, at, into) => props.onAdd(unit, { at: { x: at.x - actions.HALF.x, y: at.y - actions.HALF.y }, on: at, ...(into && { wire: into }) })}
          onOpen={props.onOpen}
        />
      ) : (
        <p class="begin">The text is not a graph yet. The errors are listed below.</p>
      )}
      {props.view.isStale && (
        <p class="stale" role="status">
          The text is not a graph. The picture shows the last one.
        </p>
      )}
      {picture && !picture.boxes.length && <p class="begin empty">The graph is empty. Bring in a model, click a unit on the left, or double-click here.</p>}
      {picture && <Minimap picture={picture} viewport={props.viewport} size={props.size} selected={desk.chosen} onViewport={props.onViewport} />}
      {props.isFinding && (
        <FindBar
          picture={picture}
          text={props.text}
          onGo={(match) => {
            if ("spot" in match) return props.onSpot(match.spot);
            desk.select([match.node]);
            desk.reveal([match.node]);
          }}
          onClose={props.onFound}
        />
      )}
    </div>
  );
}
