import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Canvas, fitted, HOME, type Point, readable, type Sight, type Wish, zoomed } from "./edit/canvas";
import { About } from "./edit/about";
import { Beginning, NewUnit } from "./edit/beginning";
import { ChangesDialog, Conflict } from "./edit/changes";
import { type Choice, Choices, Keys } from "./edit/dialogs";
import { Findings } from "./edit/findings";
import { Inspector } from "./edit/inspector";
import { isTyping, neighbour } from "./edit/keyboard";
import { INPUT, OUTPUT, Palette } from "./edit/palette";
import { inputFor, type Pair, pairsOf } from "./edit/pairs";
import { type Chosen, RunBar, RunDialog } from "./edit/run";
import { Source } from "./edit/source";
import { useRun } from "./edit/trial";
import { EdgePanel, PortValues } from "./edit/values";
import { endOf, type Finding, freeName, type Operation, type Wire } from "./edit/view";
import { fileName, type State, Work } from "./edit/work";

function Editor() {
  const [state, setState] = useState<State | null>(null);
  const [work] = useState(() => new Work(setState));
  const [selected, setSelected] = useState<string[]>([]);
  const [wire, setWire] = useState<Wire | null>(null);
  const [sight, setSight] = useState<Sight>(HOME);
  const [connecting, setConnecting] = useState("");
  const [search, setSearch] = useState("");
  const [wish, setWish] = useState<Wish | null>(null);
  const [choices, setChoices] = useState<{ title: string; of: Choice[] } | null>(null);
  const [dialog, setDialog] = useState<"" | "keys" | "changes" | "run" | "unit">("");
  const [samples, setChosen] = useState<Record<string, Chosen>>({});
  const run = useRun(work, state?.opened ?? null);
  const [line, setLine] = useState<number | null>(null);
  const [inspecting, setInspecting] = useState(0);
  const stage = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const isFitted = useRef(false);

  const picture = state?.view?.picture ?? null;
  const boxes = new Map(picture?.boxes.map((box) => [box.name, box]));
  const chosen = selected.filter((name) => boxes.has(name));
  const chosenWire = wire && picture?.wires.find((one) => JSON.stringify(one.written) === JSON.stringify(wire.written));

  const fit = (how = fitted) => {
    const frame = stage.current?.getBoundingClientRect();
    if (frame && picture) setSight(how(picture, frame.width, frame.height));
  };
  const select = (names: string[], one: Wire | null = null) => {
    setSelected(names);
    setWire(one);
  };
  const focusNode = (name: string) => {
    stage.current?.querySelector<HTMLElement>(`[data-body=${CSS.escape(name)}]`)?.focus();
  };
  const edit = (...operations: Operation[]) => work.edit(...operations);

  // -- actions of the user ----------------------------------------------------------------------

  const connect = (sourceName: string, output: string | null, targetName: string, input: string | null) => {
    const [source, target] = [boxes.get(sourceName), boxes.get(targetName)];
    if (!source || !target) return;
    const pairs = pairsOf(source, output, target, input);
    const make = ([from, to]: Pair) =>
      edit({ do: "connect", source: endOf(source, from, "outputs"), target: endOf(target, to, "inputs") }).then((isDone) => {
        if (isDone) work.tell(`connected ${sourceName} → ${targetName}`);
      });
    if (!pairs.length) {
      const hasOutput = source.outputs.some((port) => !port.wrong);
      return work.fail(`cannot connect ${sourceName} to ${targetName}: ${hasOutput ? `${targetName} has no input` : `${sourceName} has no output`}`);
    }
    if (pairs.length === 1) return void make(pairs[0]!);
    setChoices({
      title: `Choose the ports of ${sourceName} → ${targetName}`,
      of: pairs.map((pair) => ({ text: `${pair[0]} → ${pair[1]}`, take: () => void make(pair) })),
    });
  };
  const add = async (unit: string, at: Point | null) => {
    const isPort = unit === INPUT || unit === OUTPUT;
    const name = freeName(unit === INPUT ? "input" : unit === OUTPUT ? "output" : unit, picture);
    const attributes: Record<string, string> = isPort ? { type: unit === INPUT ? "input" : "output" } : { flowunit: unit };
    const operations: Operation[] = [{ do: "add", name, attributes }];
    const place = at ?? wish?.at;
    const source = wish && boxes.get(wish.node);
    if (wish && source) {
      const found = state?.catalog?.units.find((one) => one.name === unit);
      operations.push({ do: "connect", source: endOf(source, wish.port, "outputs"), target: { node: name, port: inputFor(found, wish) } });
    }
    if (place) operations.push({ do: "move", places: { [name]: [place.x + 98, place.y + 51] } });
    setWish(null);
    setSearch("");
    if (!(await edit(...operations))) return;
    select([name]);
    work.tell(`added ${name}`);
    requestAnimationFrame(() => focusNode(name));
  };
  const remove = () => {
    if (chosenWire) void edit({ do: "disconnect", source: chosenWire.written[0], target: chosenWire.written[1] });
    else if (chosen.length) void edit({ do: "remove", nodes: chosen });
  };
  const copy = async (isCut: boolean) => {
    if (!chosen.length) return;
    const clipping = await work.copy(chosen);
    try {
      await navigator.clipboard.writeText(clipping);
    } catch (error) {
      return work.fail(`the browser refused access to the clipboard: ${error}`);
    }
    if (isCut) await edit({ do: "remove", nodes: chosen });
    work.tell(`${isCut ? "cut" : "copied"} ${chosen.length} ${chosen.length === 1 ? "node" : "nodes"} to the clipboard as DOT text`);
  };
  const seek = (finding: Finding) => {
    if (finding.node && boxes.has(finding.node)) {
      select([finding.node]);
      focusNode(finding.node);
    }
    setLine(null);
    requestAnimationFrame(() => setLine(finding.line));
  };

  const inputs = picture?.boxes.filter((box) => box.role === "input").map((box) => box.name) ?? [];
  const begin = () => {
    const count = state?.view?.findings.length ?? 0;
    if (run.isActive) run.stop();
    else if (count) work.fail(`the graph cannot run: see the ${count === 1 ? "error" : "errors"} below`);
    else if (inputs.length) setDialog("run");
    else void run.start({}, false);
  };

  // -- keys -------------------------------------------------------------------------------------

  const onKey = (event: KeyboardEvent) => {
    const name = document.activeElement?.getAttribute("data-body") ?? "";
    const isCommand = event.ctrlKey || event.metaKey;
    const key = isCommand ? `Ctrl+${event.key.toLowerCase()}` : event.key;
    if (key === "Ctrl+s") {
      settle();
      void work.save();
    } else if (key === "Ctrl+enter" && !dialog) {
      settle();
      begin();
    }
    else if (isTyping(event)) return;
    else if (key === "Ctrl+z" && !event.shiftKey) void work.undo();
    else if (key === "Ctrl+y" || (key === "Ctrl+z" && event.shiftKey)) void work.redo();
    else if (key === "Ctrl+c" && chosen.length) void copy(false);
    else if (key === "Ctrl+x" && chosen.length) void copy(true);
    else if (key === "Ctrl+a") select([...boxes.keys()]);
    else if (isCommand || event.altKey) return;
    else if (key === "/") field.current?.focus();
    else if (key === "?") setDialog("keys");
    else if (key === "+" || key === "=") zoom(1.25);
    else if (key === "-") zoom(0.8);
    else if (key === "0") fit();
    else if (!picture) return; // the other keys act on nodes
    else if (key === "Delete" || key === "Backspace") remove();
    else if (key === "Escape") {
      setConnecting("");
      setWish(null);
      select([]);
    } else if (key.startsWith("Arrow")) {
      const next = neighbour(picture, name, key);
      if (next) focusNode(next);
    } else if (key === "c" && name) {
      setConnecting(name);
      work.tell(`connect ${name}: move to the target node and press Enter (Escape cancels)`);
    } else if ((key === "Enter" || key === " ") && name) {
      if (connecting && connecting !== name) connect(connecting, null, name, null);
      else if (!connecting) setInspecting((before) => before + 1);
      setConnecting("");
    } else return;
    event.preventDefault();
  };
  const zoom = (by: number) => {
    const frame = stage.current!.getBoundingClientRect();
    setSight((before) => zoomed(before, { x: frame.width / 2, y: frame.height / 2 }, by));
  };
  const onPaste = (event: ClipboardEvent) => {
    const text = event.clipboardData?.getData("text/plain");
    if (isTyping(event) || !text) return;
    const before = new Set(boxes.keys());
    void edit({ do: "paste", text }).then((isDone) => {
      const after = work.state.view?.picture?.boxes ?? [];
      if (isDone) select(after.map((box) => box.name).filter((name) => !before.has(name)));
    });
    event.preventDefault();
  };

  // The listeners are registered once, and call the newest functions.
  const newest = useRef({ onKey, onPaste, work });
  newest.current = { onKey, onPaste, work };
  useEffect(() => {
    const key = (event: KeyboardEvent) => newest.current.onKey(event);
    const paste = (event: ClipboardEvent) => newest.current.onPaste(event);
    const back = () => void newest.current.work.compare();
    const leave = (event: BeforeUnloadEvent) => newest.current.work.isChanged && event.preventDefault();
    addEventListener("keydown", key);
    addEventListener("paste", paste);
    addEventListener("focus", back);
    addEventListener("beforeunload", leave);
    void work.open();
    return () => {
      removeEventListener("keydown", key);
      removeEventListener("paste", paste);
      removeEventListener("focus", back);
      removeEventListener("beforeunload", leave);
    };
  }, []);
  useEffect(() => {
    if (picture && !isFitted.current) {
      isFitted.current = true;
      fit(readable);
    }
  }, [picture]);
  useEffect(() => {
    if (state?.file) document.title = `${work.isChanged ? "• " : ""}${fileName(state.file)} · modelflow edit`;
  }, [state?.file, work.isChanged]);

  if (!state) return <p class="begin">opening the graph…</p>;
  const { view } = state;
  if (!view) return <p class="begin problem" role="alert">{state.problem || "opening the graph…"}</p>;
  const one = chosen.length === 1 ? boxes.get(chosen[0]!) : undefined;
  const said = state.problem || state.told;
  return (
    <div class="editor">
      <header>
        <h1 title={state.file}>
          {fileName(state.file)}
          {work.isChanged && <span class="dirty"> (changed)</span>}
        </h1>
        <div role="toolbar" aria-label="Edit">
          <Button name="Undo" keys="Control+Z" isOff={!state.undo.length} onPress={() => void work.undo()} />
          <Button name="Redo" keys="Control+Y" isOff={!state.redo.length} onPress={() => void work.redo()} />
          <Button name="Tidy" isOff={!picture?.boxes.some((box) => box.pinned)} onPress={() => void edit({ do: "tidy" })} />
          <Button name="Fit" keys="0" onPress={() => fit()} />
          <Button name="Show changes" onPress={() => setDialog("changes")} />
          <Button name="Save" keys="Control+S" isOff={!work.isChanged} onPress={() => void work.save()} />
          <Button name={run.isActive ? "Stop" : "Run"} keys="Control+Enter" isOff={run.trial.state === "stopping"} onPress={begin} />
          <Button name="Show keys" keys="?" onPress={() => setDialog("keys")} />
        </div>
        <p class={state.problem ? "said problem" : "said"} role={state.problem ? "alert" : "status"} data-said>
          {said}
        </p>
        <RunBar run={run} />
      </header>
      <main>
        <Palette
          catalog={state.catalog}
          search={search}
          wish={wish}
          field={field}
          onSearch={setSearch}
          onAdd={(unit) => void add(unit, null)}
          onNew={() => setDialog("unit")}
          onLeave={() => {
            setWish(null);
            setSearch("");
            if (picture?.boxes[0]) focusNode(chosen[0] ?? picture.boxes[0].name);
          }}
        />
        <div class="stage" ref={stage}>
          {picture ? (
            <Canvas
              picture={picture}
              findings={view.findings}
              frame={run.trial.state === "none" || run.trial.state === "opening" ? null : run.live.frame}
              selected={chosen}
              wire={chosenWire ?? null}
              connecting={connecting}
              sight={sight}
              onSight={setSight}
              onSelect={select}
              onMove={(places) => void edit({ do: "move", places })}
              onConnect={connect}
              onWish={(found) => {
                setWish(found);
                field.current?.focus();
              }}
              onDropUnit={(unit, at) => void add(unit, { x: at.x - 98, y: at.y - 51 })}
              onEnter={() => setInspecting((before) => before + 1)}
            />
          ) : (
            <p class="begin">The text is not a graph yet. The errors are listed below.</p>
          )}
        </div>
        {one ? (
          <Inspector
            key={one.name}
            box={one}
            view={view}
            catalog={state.catalog}
            focus={inspecting}
            onEdit={(...operations) => {
              const renamed = operations.find((each) => each.do === "rename");
              void edit(...operations).then((isDone) => isDone && renamed?.do === "rename" && select([renamed.name]));
            }}
            onSelect={(name) => {
              select([name]);
              focusNode(name);
            }}
            onWire={(wire) => select([], wire)}
            values={run.trial.state === "none" ? null : <PortValues box={one} wires={picture?.wires ?? []} run={run} />}
            onLeave={() => focusNode(one.name)}
          />
        ) : chosenWire ? (
          <EdgePanel
            key={`${chosenWire.source} ${chosenWire.output}`}
            wire={chosenWire}
            run={run}
            onSelect={(name) => {
              select([name]);
              focusNode(name);
            }}
            onRemove={remove}
            onLeave={() => focusNode(chosenWire.source)}
          />
        ) : (
          <About picture={picture} notes={view.notes} many={chosen.length} args={view.args} given={state.args} onGive={(name, value) => work.give(name, value)} />
        )}
        <Source text={state.text} file={fileName(state.file)} findings={view.findings} line={line} newest={() => work.state.text} onType={(text) => work.type(text)} />
        <Findings findings={view.findings} troubles={run.live.frame?.troubles ?? []} problem={run.trial.problem} onSeek={seek} />
      </main>
      {dialog === "keys" && <Keys onClose={() => setDialog("")} />}
      {dialog === "changes" && <ChangesDialog work={work} onClose={() => setDialog("")} />}
      {dialog === "unit" && (
        <NewUnit
          kinds={state.catalog?.kinds ?? []}
          onMake={(name, kind) => {
            setDialog("");
            void work.makeUnit(name, kind);
          }}
          onClose={() => setDialog("")}
        />
      )}
      {dialog === "run" && (
        <RunDialog
          inputs={inputs}
          chosen={samples}
          onChange={setChosen}
          onRun={async (samples, isRepeated) => {
            if (await run.start(samples, isRepeated)) setDialog("");
            else return work.state.problem;
            return "";
          }}
          onClose={() => setDialog("")}
        />
      )}
      {state.starters.length > 0 && !dialog && (
        <Beginning file={fileName(state.file)} starters={state.starters} onTake={(name) => void work.begin(name)} onClose={() => work.skipBeginning()} />
      )}
      {choices && <Choices title={choices.title} choices={choices.of} onClose={() => setChoices(null)} />}
      {state.conflict && <Conflict state={state} work={work} />}
    </div>
  );
}

/** Makes the focused field report its current value. */
function settle() {
  const field = document.activeElement;
  if (!(field instanceof HTMLInputElement || field instanceof HTMLSelectElement) || field.closest("dialog")) return;
  const name = field.dataset.field;
  field.blur();
  if (name) requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-field=${CSS.escape(name)}]`)?.focus());
}

function Button(props: { name: string; keys?: string; isOff?: boolean; onPress: () => void }) {
  return (
    <button type="button" disabled={props.isOff} aria-keyshortcuts={props.keys} title={props.keys} onClick={props.onPress}>
      {props.name}
    </button>
  );
}

render(<Editor />, document.getElementById("app")!);
