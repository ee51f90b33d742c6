// The edited text, its undo and redo history, and the server's view of the text.

import type { Trial } from "../live/stream";
import { clockOf } from "../words";
import { ask, Refusal } from "./api";
import { readDraft, type StoredDraft, storeDraft } from "./drafts";
import { EMPTY, type Sample, type State } from "./state";
import { type Catalog, fileName, type Opened, type Operation, type Stand, type View } from "./view";

const MOST_UNDO = 500;
const PAUSE = 250;

/** Runs all changes one after the other, each on the text that the previous change produced. */
export class Work {
  state: State = EMPTY;
  private queue: Promise<void> = Promise.resolve();
  private timer = 0;
  private isTyping = false;
  private driver: string | null = null;
  private places: Record<string, [number, number]> = {}; // the centers of the boxes that were shown

  constructor(private readonly changed: (state: State) => void) {}
  open(): Promise<void> {
    return this.next(async () => {
      const found = await ask<Opened>("open", {});
      const draft = readDraft(found.file);
      if (draft?.text === found.text) storeDraft(found.file, null);
      this.set({ ...EMPTY, file: found.file, text: found.text, saved: found.saved, mark: found.mark, starters: found.starters, opened: found.trial });
      if (draft && draft.text !== found.text) {
        this.set({ view: found });
        this.restore(draft, { text: found.saved, mark: found.mark });
        await this.show(await ask<View>("look", this.draft));
      } else await this.show(found);
    });
  }

  /** Continues with the unsaved text of an earlier page. */
  private restore(draft: StoredDraft, stand: Stand): void {
    this.remember(draft.text);
    this.set({ starters: [], message: `restored your unsaved changes of ${clockOf(new Date(draft.time))}; Undo returns to the file` });
    if (draft.mark !== stand.mark) this.set({ mark: draft.mark, conflict: stand });
  }

  /** Asks a task that answers with a new text, and takes the text; null if the task was refused, or the text was typed meanwhile. */
  private async change<Found extends { text: string }>(task: string, body: object, show: (found: Found) => void | Promise<void>): Promise<Found | null> {
    let taken: Found | null = null;
    await this.next(async () => {
      const { draft } = this;
      const found = await ask<Found>(task, { ...draft, ...body });
      if (this.state.text !== draft.text) return this.set({ problem: "the text has changed in the meantime; try again" });
      if (found.text !== draft.text) this.remember(found.text);
      taken = found;
      await show(found);
    });
    return taken;
  }

  /** Applies operations; returns the names of new nodes, or null if the operations were refused. */
  async edit(...operations: Operation[]): Promise<string[] | null> {
    for (const each of operations) if (each.do === "rename" && this.places[each.node]) this.places[each.name] = this.places[each.node]!;
    const found = await this.change<View>("edit", { operations }, (view) => this.show(view));
    return found && (found.added ?? []);
  }

  /** Arranges all nodes anew, and removes the positions in the file. */
  async tidy(): Promise<void> {
    await this.change<View>("edit", { operations: [{ do: "tidy" }] }, (view) => {
      this.places = {};
      return this.show(view);
    });
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
    return this.travel("undo", "redo");
  }

  redo(): Promise<void> {
    return this.travel("redo", "undo");
  }

  private travel(from: "undo" | "redo", to: "undo" | "redo"): Promise<void> {
    return this.next(async () => {
      const text = this.state[from].at(-1);
      if (text === undefined) return;
      this.set({ [from]: this.state[from].slice(0, -1), [to]: [...this.state[to], this.state.text], text });
      void this.look();
    });
  }

  /** Starts a new graph from a template. */
  async begin(starter: string): Promise<void> {
    await this.change<View & { files?: string[] }>("begin", { starter, places: {} }, async (view) => {
      this.places = {};
      this.driver = null;
      this.set({ starters: [], message: describeFiles(view.files) });
      await this.show(view);
    });
  }

  /** Starts with the text that is shown. */
  skipBeginning(): void {
    this.set({ starters: [] });
  }

  /** Returns to the saved text. One undo restores the changes. */
  revert(): Promise<void> {
    return this.next(async () => {
      this.remember(this.state.saved);
      void this.look();
    });
  }

  /** Sets an argument of the graph until the page is closed. "" restores the default. */
  give(name: string, value: string): void {
    const { [name]: _, ...others } = this.state.args;
    this.set({ args: value ? { ...others, [name]: value } : others });
    void this.look();
  }

  /** Runs a task that changes the text and may write files, such as a new unit; null if it was refused. */
  bring<Found extends { text: string; files?: string[] }>(task: string, body: object): Promise<Found | null> {
    return this.change<Found>(task, body, async (found) => {
      this.driver = null;
      await this.show(await ask<View>("look", this.draft));
      this.set({ message: describeFiles(found.files) });
    });
  }

  /** Asks a task about the present text; null if the task was refused, or the server does not answer. */
  private async query<Found>(task: string, body: object): Promise<Found | null> {
    let found: Found | null = null;
    await this.next(async () => {
      found = await ask<Found>(task, { ...this.draft, ...body });
    });
    return found;
  }

  /** Starts a run; returns null if the server refuses the run. */
  run(samples: Record<string, Sample[]>, isRepeated: boolean): Promise<Trial | null> {
    return this.query<Trial>("run", { samples, repeat: isRepeated });
  }

  /** Stops the run at once, without waiting for other tasks. */
  async stop(): Promise<void> {
    try {
      await ask("stop", {});
    } catch (error) {
      this.set({ problem: String((error as Error).message) });
    }
  }

  /** Returns nodes as DOT text; null if they cannot be copied. */
  async copy(nodes: string[]): Promise<string | null> {
    return (await this.query<{ clipping: string }>("copy", { nodes }))?.clipping ?? null;
  }

  /** Returns the changes since an earlier text; null if the server does not answer. */
  async diff(before: string): Promise<string | null> {
    return (await this.query<{ diff: string }>("diff", { before }))?.diff ?? null;
  }

  /** Writes the file. With `over`, replaces contents that another program has written meanwhile. */
  save(over?: Stand): Promise<void> {
    return this.next(async () => {
      const text = this.state.text;
      const mark = over ? over.mark : this.state.mark;
      try {
        const found = await ask<{ mark: string }>("save", { text, mark });
        this.set({ saved: text, mark: found.mark, conflict: null, message: `saved ${this.state.file}` });
      } catch (error) {
        if (!(error instanceof Refusal) || error.status !== 409) throw error;
        this.set({ conflict: { text: error.found.text, mark: error.found.mark } });
      }
    });
  }

  /** Checks whether another program has written the file. A page without changes loads the file. */
  compare(): Promise<void> {
    return this.step(async () => {
      if (!this.state.view) return;
      const stand = await ask<Stand>("stand", {}).catch(() => null);
      if (!stand || stand.mark === this.state.mark || this.state.conflict) return;
      if (this.isChanged || !stand.mark) return this.set({ conflict: stand });
      this.take(stand);
      this.set({ message: `loaded ${fileName(this.state.file)}, which another program has changed` });
    });
  }

  /** Takes the current contents of the file. One undo restores the text of the page. */
  take(stand: Stand): void {
    this.remember(stand.text);
    this.set({ saved: stand.text, mark: stand.mark, conflict: null });
    void this.look();
  }

  /** Waits until all changes so far are done. */
  finish(): Promise<void> {
    return this.queue;
  }
  notify(message: string): void {
    this.set({ message });
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
    return { text: this.state.text, args: this.state.args, places: this.places };
  }

  private remember(text: string): void {
    this.isTyping = false;
    const undo = [...this.state.undo, this.state.text].slice(-MOST_UNDO);
    this.set({ text, undo, redo: [] });
  }

  private async show(view: View): Promise<void> {
    // A text that is no graph has no picture. The last picture stays, and the findings give the reason.
    const picture = view.picture ?? this.state.view?.picture ?? null;
    for (const box of picture?.boxes ?? []) this.places[box.name] = [box.x + box.width / 2, box.y + box.height / 2];
    this.set({ view: { ...view, picture, isStale: picture !== null && view.picture === null } });
    const driver = /\[driver\][^[]*(\[[^\]]*\])?/.exec(view.text)?.[0] ?? "";
    if (driver !== this.driver || !this.state.catalog) {
      this.driver = driver;
      this.set({ catalog: await ask<Catalog>("units", { text: view.text }) });
    }
  }

  /** Runs a step after all earlier steps, and clears the previous messages. */
  private next(step: () => Promise<void>): Promise<void> {
    return this.step(async () => {
      this.set({ problem: "", message: "" });
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
    const before = this.state;
    this.state = { ...before, ...part };
    this.changed(this.state);
    if (!before.view || (this.state.text === before.text && this.state.saved === before.saved)) return; // an opened file changes no draft
    storeDraft(this.state.file, this.isChanged ? { text: this.state.text, mark: this.state.mark, time: Date.now() } : null);
  }
}

function describeFiles(files: string[] = []): string {
  return files.length ? `created ${files.join(", ")}` : "";
}
