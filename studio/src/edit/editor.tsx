// The editor: the state of what is shown, and the panes.

import { useEffect, useRef, useState } from "preact/hooks";
import * as actions from "./actions";
import { isSame, type Wish } from "./canvas/canvas";
import { Stage } from "./canvas/stage";
import { useStage } from "./canvas/use_stage";
import { type Choice } from "./dialogs/dialog";
import { Dialogs, type DialogName } from "./dialogs/open";
import { takeDropped } from "./dropped";
import { handleKey, isTyping, type KeyActions } from "./keys";
import { Findings } from "./panels/findings";
import { Palette } from "./panels/palette";
import { Splitter, useSizes } from "./panels/panes";
import { Side } from "./panels/side";
import { Source, type Spot } from "./panels/source";
import { RunBar } from "./run/bar";
import { type Chosen, NOTHING } from "./run/dialog";
import { useRun } from "./run/trial";
import { Toolbar } from "./toolbar";
import { fileName, type Finding, type Wire } from "./view";
import type { State } from "./state";
import { Work } from "./work";

export function Editor() {
  const [state, setState] = useState<State | null>(null);
  const [work] = useState(() => new Work(setState));
  const [selected, setSelected] = useState<string[]>([]);
  const [wire, setWire] = useState<Wire | null>(null);
  const [connecting, setConnecting] = useState("");
  const [wish, setWish] = useState<Wish | null>(null);
  const [choices, setChoices] = useState<{ title: string; of: Choice[] } | null>(null);
  const [dialog, setDialog] = useState<DialogName>("");
  const [model, setModel] = useState("");
  const [isFinding, setFinding] = useState(false);
  const [samples, setSamples] = useState<Record<string, Chosen>>({});
  const [spot, setSpot] = useState<Spot | null>(null);
  const [inspecting, setInspecting] = useState(0);
  const [sizes, setPane] = useSizes();
  const run = useRun(work, state?.opened ?? null);
  const stage = useStage(work);
  const field = useRef<HTMLInputElement>(null);

  const picture = state?.view?.picture ?? null;
  const chosen = selected.filter((name) => actions.boxOf(picture, name));
  const chosenWire = (wire && picture?.wires.find((one) => isSame(one, wire))) || null;
  const desk: actions.Desk = {
    work,
    picture,
    chosen,
    chosenWire,
    select: (names, one = null) => {
      setSelected(names);
      setWire(one);
    },
    focus: stage.focus,
    reveal: stage.reveal,
    choose: (title, of) => setChoices({ title, of }),
  };
  const add = (unit: string, at: Wish | null) => {
    setWish(null);
    void actions.add(desk, unit, at ?? (chosenWire && { ...actions.NOWHERE, wire: chosenWire }));
  };
  const seek = (finding: Finding) => {
    if (finding.node && actions.boxOf(picture, finding.node)) {
      desk.select([finding.node]);
      desk.focus(finding.node);
    }
    if (finding.line !== null) setSpot({ line: finding.line });
  };

  // -- runs -------------------------------------------------------------------------------------

  const inputs = picture?.boxes.filter((box) => box.role === "input").map((box) => box.name) ?? [];
  const begin = () => {
    const count = state?.view?.findings.length ?? 0;
    if (count) work.fail(`the graph cannot run: see the ${count === 1 ? "error" : "errors"} below`);
    else if (inputs.length) setDialog("run");
    else void run.start({}, false);
  };
  const showResults = () => {
    const output = picture?.boxes.find((box) => box.role === "output");
    if (output) desk.select([output.name]);
    else desk.select([], picture?.wires.at(-1));
    if (output) desk.reveal([output.name]);
  };
  useEffect(() => {
    const isLooking = chosenWire !== null || chosen.some((name) => actions.boxOf(picture, name)?.kind === "port");
    if (run.trial.state === "done" && run.isOwn && !isLooking) showResults();
  }, [run.trial.state]);

  // -- keys, the clipboard, files, the window ---------------------------------------------------

  const act: KeyActions = {
    save: () => {
      settle();
      void work.save();
    },
    run: () => {
      if (run.isActive) return run.stop();
      settle();
      void work.finish().then(() => newest.current.begin()); // with the graph after all changes that are under way
    },
    undo: () => void work.undo(),
    redo: () => void work.redo(),
    copy: (isCut) => void actions.copy(desk, isCut),
    remove: () => void actions.remove(desk),
    search: () => field.current?.focus(),
    find: () => setFinding(true),
    bringModel: () => setDialog("model"),
    showKeys: () => setDialog("keys"),
    showResults,
    zoom: stage.zoom,
    fit: stage.fit,
    cancel: () => {
      setConnecting("");
      desk.select([]);
    },
    startEdge: (name) => {
      setConnecting(name);
      work.notify(`connect ${name}: move to the target node and press Enter (Escape cancels)`);
    },
    addBehind: (name) => setWish(actions.wishBehind(picture, name)),
    enter: (name) => {
      if (connecting && connecting !== name) actions.connect(desk, connecting, null, name, null);
      else if (!connecting) setInspecting((before) => before + 1);
      setConnecting("");
    },
  };
  const onPaste = (event: ClipboardEvent) => {
    const text = event.clipboardData?.getData("text/plain");
    if (isTyping(event) || !text) return;
    void actions.paste(desk, text);
    event.preventDefault();
  };
  const onDrop = (event: DragEvent) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    void takeDropped(event.dataTransfer, work, {
      onModel: (path) => {
        setModel(path);
        setDialog("model");
      },
      onSamples: (files) => {
        if (!inputs[0]) return work.fail("the graph has no input for these files");
        setSamples({ ...samples, [inputs[0]]: { ...NOTHING, files } });
        begin();
      },
    });
  };
  // The listeners are registered once, and call the newest functions.
  const newest = useRef({ desk, act, begin, onPaste });
  newest.current = { desk, act, begin, onPaste };
  useEffect(() => {
    const ends: (() => void)[] = [];
    const on = <Name extends keyof WindowEventMap>(name: Name, take: (event: WindowEventMap[Name]) => void) => {
      addEventListener(name, take);
      ends.push(() => removeEventListener(name, take));
    };
    on("keydown", (event) => handleKey(event, newest.current.desk, newest.current.act));
    on("paste", (event) => newest.current.onPaste(event));
    on("focus", () => void work.compare());
    on("beforeunload", (event) => work.isChanged && event.preventDefault());
    void work.open();
    return () => ends.forEach((end) => end());
  }, []);
  useEffect(() => {
    if (state?.file) document.title = `${work.isChanged ? "• " : ""}${fileName(state.file)} · modelflow edit`;
  }, [state?.file, work.isChanged]);

  if (!state) return <p class="begin">opening the graph…</p>;
  const { view } = state;
  if (!view) return <p class="begin problem" role="alert">{state.problem || "opening the graph…"}</p>;
  return (
    <div class="editor" onDragOver={(event) => event.dataTransfer?.types.includes("Files") && event.preventDefault()} onDrop={onDrop}>
      <header>
        <h1 title={state.file}>
          {fileName(state.file)}
          <span class={work.isChanged ? "dirty" : "dirty hidden"} aria-hidden={!work.isChanged}>
            {" "}
            (changed)
          </span>
        </h1>
        <Toolbar
          isActive={run.isActive}
          isStopping={run.trial.state === "stopping"}
          isChanged={work.isChanged}
          canUndo={state.undo.length > 0}
          canRedo={state.redo.length > 0}
          onUndo={act.undo}
          onRedo={act.redo}
          onTidy={() => void work.tidy().then(stage.showFromSources)}
          onFit={act.fit}
          onFind={act.find}
          onChanges={() => setDialog("changes")}
          onSave={act.save}
          onRun={act.run}
          onServe={() => setDialog("serve")}
          onKeys={act.showKeys}
        />
        <div class="status">
          <RunBar run={run} onResults={showResults} />
          <p class={state.problem ? "said problem" : "said"} role={state.problem ? "alert" : "status"} data-said>
            {state.problem || state.message}
          </p>
        </div>
      </header>
      <main style={{ "--left": `${sizes.left}px`, "--right": `${sizes.right}px`, "--below": `${sizes.below}px` }}>
        <Palette
          catalog={state.catalog}
          field={field}
          onAdd={(unit) => add(unit, null)}
          onModel={act.bringModel}
          onFolder={() => setDialog("folder")}
          onNew={() => setDialog("unit")}
          onLeave={() => picture?.boxes[0] && desk.focus(chosen[0] ?? picture.boxes[0].name)}
        />
        <Splitter name="left" size={sizes.left} onSize={setPane} />
        <Stage
          desk={desk}
          view={view}
          text={state.text}
          frame={run.trial.state === "none" || run.trial.state === "opening" || run.isOld ? null : run.live.frame}
          connecting={connecting}
          viewport={stage.viewport}
          size={stage.size}
          isFinding={isFinding}
          stage={stage.element}
          onViewport={stage.move}
          onSize={stage.setSize}
          onWish={setWish}
          onAdd={add}
          onOpen={() => setInspecting((before) => before + 1)}
          onSpot={setSpot}
          onFound={() => {
            setFinding(false);
            desk.focus(chosen[0] ?? "");
          }}
        />
        <Splitter name="right" size={sizes.right} onSize={setPane} />
        <div class="right">
          <Side desk={desk} state={state} view={view} run={run} inputs={inputs} focus={inspecting} onWish={setWish} onRemove={act.remove} />
          <Findings findings={view.findings} troubles={run.live.frame?.troubles ?? []} problem={run.trial.problem} onSeek={seek} />
        </div>
        <Splitter name="below" size={sizes.below} onSize={setPane} />
        <Source text={state.text} file={fileName(state.file)} findings={view.findings} spot={spot} newest={() => work.state.text} onType={(text) => work.type(text)} />
      </main>
      <Dialogs
        desk={desk}
        state={state}
        dialog={dialog}
        model={model}
        wish={wish}
        choices={choices}
        inputs={inputs}
        samples={samples}
        run={run}
        onSamples={setSamples}
        onAdd={add}
        onClose={() => {
          setDialog("");
          setModel("");
        }}
        onWish={setWish}
        onChoices={setChoices}
        onBegun={stage.showFromSources}
      />
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
