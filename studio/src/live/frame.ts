// The server's events: see modelflow/studio/moments.py and modelflow/studio/frame.py.

export interface Box {
  name: string;
  kind: string;
  lines: string[];
  mark: string;
  sign: string; // a path of 12 by 12 pixels, or empty
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Wire {
  source: string;
  target: string;
  path: string;
  label: string;
}

/** The places of nodes and wires. */
export interface Drawing {
  width: number;
  height: number;
  boxes: Box[];
  wires: Wire[];
}

/** A graph. `down` is its drawing from top to bottom, `plan` the settings of each node as texts. */
export interface Picture extends Drawing {
  name: string;
  down: Drawing;
  plan: Record<string, Record<string, string>>;
}

export interface NodeFrame {
  node: string;
  unit: string;
  stage: string;
  threads: number;
  rate: number;
  batch: number;
  batch_size: number;
  busy: number;
  starved: number;
  blocked: number;
  order: number;
  queue: number;
  capacity: number;
  rows: number;
  errors: number;
  service: Marks | null;
  wait: Marks | null;
  details: Details;
  inside: NodeFrame[]; // nodes of this node that run on other machines
}

/** The figures of a node in the last ten seconds. */
export interface Details {
  service: Marks | null;
  wait: Marks | null;
  times: [number, number][]; // bucket of 2 ** (bucket / 4) ns, calls
  batches: [number, number, number][]; // first and last size, calls
  closed: Record<string, number>;
  cores: Record<string, number>; // shares of the time in calls, or empty
  moving: number;
  padding: number;
  cuts: number;
}

export interface Marks {
  p50: number;
  p95: number;
  p99: number;
}

export interface Trouble {
  node: string;
  count: number;
  kinds: Record<string, number>;
  at: Record<string, number>; // by kind: the time of the last error, on the clock of Frame.time
  last: string;
}

export interface Verdict {
  text: string;
  node: string;
  level: "good" | "finding" | "idle";
  change: string;
  runner_up: string;
}

/** What is known of the process and its machine: processors in use, of so many; bytes; GPUs. */
export interface Machine {
  cpu?: number;
  processors?: number;
  memory?: number;
  gpus?: number;
  gpu_share?: number;
  gpu_bytes?: number;
}

/** The time and the text of a changed setting, of another version or of a new start. */
export type Change = [number, string];

export interface Frame {
  name: string;
  time: number;
  seconds: number;
  rate: number;
  unit: string;
  in_flight: number | null; // null: no requests come in
  inside: number;
  passage: number | null;
  errors: number;
  machine: Machine;
  outcomes: Record<string, number>;
  latency: Marks | null;
  request: number | null;
  verdict: Verdict;
  nodes: NodeFrame[];
  troubles: Trouble[];
}
