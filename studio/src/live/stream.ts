// Turns the server's events into the state of the page. A lost connection is opened again.

import type { Change as FlowChange, Frame, Picture } from "./frame";
import type { Sample } from "./series";

export type Link =
  | { is: "connecting" }
  | { is: "live" }
  | { is: "ended" }
  | { is: "locked"; reason: string }
  | { is: "lost"; since: Date; reason: string };

export interface Trial {
  state: "none" | "opening" | "running" | "stopping" | "done" | "stopped" | "failed";
  problem: string;
  seconds: number;
  repeated: boolean;
  results: number;
  failed: number;
}

/** The state of a recording. `version` changes when new requests can be fetched. */
export interface RecordingState {
  on: boolean;
  has: boolean;
  slices: number;
  version: number;
  problem: string;
}

/** The models of a server; `unready` gives the reason for each missing model. */
export interface Models {
  served: string[];
  unready: Record<string, string>;
}

export interface State {
  picture: Picture | null;
  frame: Frame | null;
  models: Models;
  trial: Trial | null;
  recording: RecordingState | null;
  past: Sample[];
  changes: FlowChange[];
  link: Link;
}

export const BEGIN: State = {
  picture: null,
  frame: null,
  models: { served: [], unready: {} },
  trial: null,
  recording: null,
  past: [],
  changes: [],
  link: { is: "connecting" },
};

export type Change = (before: State) => State;

const AGAIN = 2000;

const CHANGES: Record<string, (before: State, data: any) => State> = {
  models: (before, models: Models) => ({ ...before, models }),
  trial: (before, trial: Trial) => ({ ...before, trial }),
  recording: (before, recording: RecordingState) => ({ ...before, recording }),
  picture: (before, picture: Picture) => ({ ...before, picture }),
  history: (before, past: Sample[]) => ({ ...before, past }),
  changes: (before, changes: FlowChange[]) => ({ ...before, changes }),
  frame: (before, frame: Frame) => ({ ...before, frame, link: { is: "live" } }),
  lost: (before, reason: string) => ({ ...before, link: loseLink(before.link, reason) }),
  end: (before) => ({ ...before, link: { is: "ended" } }),
};

/** Reports the server's events until the returned function is called. A hidden page sends no request. */
export function listen(url: string, key: string, change: (next: Change) => void): () => void {
  let running: AbortController | null = null;

  const begin = () => {
    running?.abort();
    running = document.hidden ? null : new AbortController();
    if (running) void follow(url, key, running.signal, change);
  };
  document.addEventListener("visibilitychange", begin);
  begin();
  return () => {
    document.removeEventListener("visibilitychange", begin);
    running?.abort();
  };
}

async function follow(
  url: string,
  key: string,
  signal: AbortSignal,
  change: (next: Change) => void,
): Promise<void> {
  while (!signal.aborted) {
    let link: (before: Link) => Link = (before) => loseLink(before, "the server does not answer");
    try {
      const answer = await fetch(url, { headers: key ? { "x-api-key": key } : {}, signal });
      if (answer.status === 401 || (answer.status === 403 && key)) {
        const reason = answer.status === 401 ? "" : await readReason(answer); // 403: a key without access to this
        change((before) => ({ ...before, link: { is: "locked", reason } }));
        return;
      }
      if (answer.ok && answer.body) await read(answer.body, change);
      else {
        const reason = await readReason(answer);
        link = (before) => loseLink(before, reason);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof TypeError)) throw error; // fetch throws a TypeError if the server does not answer
    }
    change((before) => ({ ...before, link: before.link.is === "ended" ? before.link : link(before.link) }));
    await new Promise((resolve) => setTimeout(resolve, AGAIN));
  }
}

async function read(body: ReadableStream<Uint8Array>, change: (next: Change) => void) {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (text + value).split("\n\n");
    text = events.pop() ?? "";
    for (const event of events) {
      const [name, data] = event.split("\n").map((line) => line.slice(line.indexOf(": ") + 2));
      const next = CHANGES[name ?? ""];
      if (next && data !== undefined) {
        const known = JSON.parse(data);
        change((before) => next(before, known));
      }
    }
  }
}

async function readReason(answer: Response): Promise<string> {
  try {
    const { error } = await answer.json();
    return typeof error === "string" ? error : error.message;
  } catch {
    return `the server answered ${answer.status}`;
  }
}

function loseLink(before: Link, reason: string): Link {
  return { is: "lost", since: before.is === "lost" ? before.since : new Date(), reason };
}
