// The edited text, its undo and redo history, and the server's view of the text.

import { ask, Refusal } from "./api";
import type { Trial } from "../live/stream";
import type { Catalog, Opened, Operation, Stand, Starter, View } from "./view";

export type Sample = { text: string } | { json: string } | { base64: string; name: string };

export interface State {
  file: string;
  text: string;
  view: View | null;
  catalog: Catalog | null;
  saved: string;
  mark: string;
  undo: string[];
  redo: string[];
  problem: string;
  told: string;
  conflict: Stand | null;
  args: Record<string, string>;
  starters: Starter[];
  opened: Trial | null;
}

const EMPTY: State = {
  file: "",
  text: "",
  view: null,
  catalog: null,
  saved: "",
  mark: "",
  undo: [],
  redo: [],
  problem: "",
  told: "",
  conflict: null,
  args: {},
  starters: [],
  opened: null,
};

const MOST_UNDO = 500;
const PAUSE = 250;

/** Runs all changes one after the other, each on the text that the previous change produced. */
export class Work {
  state: State = EMPTY;
  private queue: Promise<void> = Promise.resolve();
  private timer = 0;
  private isTyping = false;
  private driver: string | null = null;

  constructor(private readonly changed: (state: State) => void) {}

  open(): Promise<void> {
    return this.next(async () => {
      const found = await ask<Opened>("open", {});
      this.set({ ...EMPTY, file: found.file, text: found.text, saved: found.saved, mark: found.mark, starters: found.starters, opened: found.trial });
      await this.show(found);
    });
  }

  edit(...operations: Operation[]): Promise<boolean> {
    let isDone = false;
    return this.next(async () => {
      const { draft } = this;
      const view = await ask<View>("edit", { ...draft, operations });
      if (this.state.text !== draft.text) return this.set({ problem: "the text has changed in the meantime; try again" });
      isDone = true;
      if (view.text === this.state.text) return;
      this.remember(view.text);
      await this.show(view);
    }).then(() => isDone);
  }

  /** Takes typed text, and checks the text after a pause in typing. */
  type(text: string): void {
    if (text === this.state.text) return;
    if (this.isTyping) this.set({ text });
    else this.remember(text);
    this.isTyping = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.look(), PAUSE);
  }

  undo(): Promise<void> {
    return this.next(async () => {
      const { undo, redo, text } = this.state;
      const before = undo.at(-1);
      if (before === undefined) return;
      this.set({ undo: undo.slice(0, -1), redo: [...redo, text], text: before });
      void this.look();
    });
  }

  redo(): Promise<void> {
    return this.next(async () => {
      const { undo, redo, text } = this.state;
      const after = redo.at(-1);
      if (after === undefined) return;
      this.set({ undo: [...undo, text], redo: redo.slice(0, -1), text: after });
      void this.look();
    });
  }

  /** Starts a new graph from a template. */
  begin(starter: string): Promise<void> {
    return this.next(async () => {
      const view = await ask<View>("begin", { starter, args: this.state.args });
      this.remember(view.text);
      this.set({ starters: [] });
      await this.show(view);
    });
  }

  /** Starts with the text that is shown. */
  skipBeginning(): void {
    this.set({ starters: [] });
  }

  /** Sets an argument of the graph until the page is closed. "" restores the default. */
  give(name: string, value: string): void {
    const { [name]: _, ...others } = this.state.args;
    this.set({ args: value ? { ...others, [name]: value } : others });
    void this.look();
  }

  /** Writes the files of a new unit, and updates the list of units. */
  makeUnit(name: string, kind: string): Promise<boolean> {
    let isDone = false;
    return this.next(async () => {
      const found = await ask<{ text: string; files: string[] }>("unit", { text: this.state.text, name, kind });
      isDone = true;
      if (found.text !== this.state.text) this.remember(found.text);
      this.driver = null;
      await this.show(await ask<View>("look", this.draft));
      this.set({ told: `created ${found.files.join(", ")}` });
    }).then(() => isDone);
  }

  /** Starts a run; returns null if the server refuses the run. */
  run(samples: Record<string, Sample[]>, isRepeated: boolean): Promise<Trial | null> {
    let found: Trial | null = null;
    return this.next(async () => {
      found = await ask<Trial>("run", { ...this.draft, samples, repeat: isRepeated });
    }).then(() => found);
  }

  /** Stops the run at once, without waiting for other tasks. */
  async stop(): Promise<void> {
    try {
      await ask("stop", {});
    } catch (error) {
      this.set({ problem: String((error as Error).message) });
    }
  }

  copy(nodes: string[]): Promise<string> {
    let clipping = "";
    return this.next(async () => {
      clipping = (await ask<{ clipping: string }>("copy", { text: this.state.text, nodes })).clipping;
    }).then(() => clipping);
  }

  diff(before: string): Promise<string> {
    let found = "";
    return this.next(async () => {
      found = (await ask<{ diff: string }>("diff", { before, text: this.state.text })).diff;
    }).then(() => found);
  }

  /** Writes the file. With `over`, replaces contents that someone else has written meanwhile. */
  save(over?: Stand): Promise<void> {
    return this.next(async () => {
      const text = this.state.text;
      const mark = over ? over.mark : this.state.mark;
      try {
        const found = await ask<{ mark: string }>("save", { text, mark });
        this.set({ saved: text, mark: found.mark, conflict: null, told: `saved ${this.state.file}` });
      } catch (error) {
        if (!(error instanceof Refusal) || error.status !== 409) throw error;
        this.set({ conflict: { text: error.found.text, mark: error.found.mark } });
      }
    });
  }

  /** Checks whether someone else has written the file. */
  async compare(): Promise<void> {
    if (!this.state.view) return;
    const stand = await ask<Stand>("stand", {}).catch(() => null);
    if (stand && stand.mark !== this.state.mark) this.set({ conflict: stand });
  }

  /** Takes the current contents of the file. One undo restores the text of the page. */
  take(stand: Stand): void {
    this.remember(stand.text);
    this.set({ saved: stand.text, mark: stand.mark, conflict: null });
    void this.look();
  }

  tell(told: string): void {
    this.set({ told });
  }

  fail(problem: string): void {
    this.set({ problem });
  }

  later(): void {
    this.set({ conflict: null });
  }

  get isChanged(): boolean {
    return this.state.view !== null && this.state.text !== this.state.saved;
  }

  private look(): Promise<void> {
    this.isTyping = false;
    clearTimeout(this.timer);
    return this.step(async () => {
      const text = this.state.text;
      const view = await ask<View>("look", this.draft);
      if (text === this.state.text) await this.show(view); // otherwise another check is under way
    });
  }

  private get draft() {
    return { text: this.state.text, args: this.state.args };
  }

  private remember(text: string): void {
    this.isTyping = false;
    const undo = [...this.state.undo, this.state.text].slice(-MOST_UNDO);
    this.set({ text, undo, redo: [] });
  }

  private async show(view: View): Promise<void> {
    // A text that is no graph has no picture. The last picture stays, and the findings give the reason.
    const picture = view.picture ?? this.state.view?.picture ?? null;
    this.set({ view: { ...view, picture } });
    const driver = /\[driver\][^[]*(\[[^\]]*\])?/.exec(view.text)?.[0] ?? "";
    if (driver !== this.driver || !this.state.catalog) {
      this.driver = driver;
      this.set({ catalog: await ask<Catalog>("units", { text: view.text }) });
    }
  }

  /** Runs a step after all earlier steps, and clears the previous messages. */
  private next(step: () => Promise<void>): Promise<void> {
    return this.step(async () => {
      this.set({ problem: "", told: "" });
      await step();
    });
  }

  private step(step: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(step).catch((error: Error) => {
      if (!(error instanceof Refusal)) console.error(error);
      this.set({ problem: error instanceof Refusal ? error.message : `the page failed: ${error}` });
    });
    return this.queue;
  }

  private set(part: Partial<State>): void {
    this.state = { ...this.state, ...part };
    this.changed(this.state);
  }
}

export function fileName(path: string): string {
  return path.split(/[\\/]/).at(-1) ?? path;
}
