// Finds a text in the nodes and in the file. Enter goes from match to match.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Spot } from "../panels/source";
import type { Picture } from "../view";

export type Match = { node: string } | { spot: Spot };

interface Props {
  picture: Picture | null;
  text: string;
  onGo: (match: Match) => void;
  onClose: () => void;
}

export function FindBar(props: Props) {
  const [search, setSearch] = useState("");
  const [place, setPlace] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => field.current?.focus(), []); // before the next key
  const matches = findMatches(search, props.picture, props.text);
  const nodes = matches.filter((match) => "node" in match).length;
  const step = (by: number) => {
    if (!matches.length) return;
    const next = (place + by + matches.length) % matches.length;
    setPlace(next);
    props.onGo(matches[next]!);
  };
  return (
    <div class="find" role="search">
      <input
        ref={field}
        type="search"
        aria-label="Find in the nodes and the text"
        placeholder="find in nodes and text"
        value={search}
        onInput={(event) => {
          setSearch(event.currentTarget.value);
          setPlace(-1);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
          else if (event.key === "Escape") props.onClose();
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      <span role="status" data-matches={matches.length}>
        {search && (matches.length ? `${place < 0 ? "" : `${place + 1} of `}${matches.length}: ${nodes} in nodes, ${matches.length - nodes} in the text` : "no match")}
      </span>
      <button type="button" aria-label="Previous match" disabled={!matches.length} onClick={() => step(-1)}>
        ↑
      </button>
      <button type="button" aria-label="Next match" disabled={!matches.length} onClick={() => step(1)}>
        ↓
      </button>
      <button type="button" aria-label="Close the search" onClick={props.onClose}>
        ✕
      </button>
    </div>
  );
}

/** Returns the nodes that have the text in their name, unit or attributes, then its places in the file. */
function findMatches(search: string, picture: Picture | null, text: string): Match[] {
  const wanted = search.toLowerCase();
  if (!wanted) return [];
  const nodes = (picture?.boxes ?? []).filter((box) => [box.name, box.unit, ...Object.entries(box.attributes).flat()].some((one) => one.toLowerCase().includes(wanted)));
  const spots = text
    .toLowerCase()
    .split(/\r\n?|\n/)
    .flatMap((line, number) => {
      const found: Match[] = [];
      for (let column = line.indexOf(wanted); column >= 0; column = line.indexOf(wanted, column + wanted.length)) found.push({ spot: { line: number + 1, column, length: wanted.length } });
      return found;
    });
  return [...nodes.map((box) => ({ node: box.name })), ...spots];
}
