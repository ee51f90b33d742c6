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

export interface Picture {
  name: string;
  width: number;
  height: number;
  boxes: Box[];
  wires: Wire[];
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
  inside: NodeFrame[]; // nodes of this node that run on other machines
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
  last: string;
}

export interface Verdict {
  text: string;
  node: string;
  level: "good" | "finding" | "idle";
  change: string;
  runner_up: string;
}

export interface Frame {
  name: string;
  seconds: number;
  rate: number;
  unit: string;
  in_flight: number;
  outcomes: Record<string, number>;
  latency: Marks | null;
  request: number | null;
  verdict: Verdict;
  nodes: NodeFrame[];
  troubles: Trouble[];
}
