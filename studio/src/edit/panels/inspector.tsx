// The settings of a node: its name, its unit's options, the settings of its run, its edges.

import type { ComponentChild } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import type { Box, Catalog, Operation, Option, Unit, View, Wire } from "../view";

interface Props {
  box: Box;
  view: View;
  catalog: Catalog | null;
  focus: number;
  onEdit: (...operations: Operation[]) => void;
  onSelect: (name: string) => void;
  onWire: (wire: Wire) => void;
  onRemove: () => void;
  onLeave: () => void;
  values: ComponentChild;
}

// Settings that the plan chooses if the file does not set them.
const PLANNED: Record<string, string> = { threads: "threads", batch_size: "batch", queue_size: "queue", device: "device" };
const OWN = new Set(["type", "flowunit", "pos", "comment"]);

export function Inspector(props: Props) {
  const { box, view, catalog } = props;
  const panel = useRef<HTMLElement>(null);
  const focused = useRef(props.focus);
  // A layout effect moves the focus before the next key, which would go to the wrong field otherwise.
  useLayoutEffect(() => {
    if (props.focus === focused.current) return; // the node changed, but the user did not press Enter on it
    focused.current = props.focus;
    panel.current?.querySelector<HTMLElement>("input, select")?.focus();
  }, [props.focus]);
  const unit = catalog?.units.find((one) => one.name === box.unit);
  const findings = view.findings.filter((one) => one.node === box.name);
  const isUnit = box.kind !== "port";
  const settings = isUnit ? (catalog?.settings ?? []) : [];
  const options = unit?.options ?? [];
  const known = new Set([...options, ...settings].map((one) => one.name));
  const others = Object.keys(box.attributes).filter((key) => !known.has(key) && !OWN.has(key));
  const planned = view.plan[box.name];
  const set = (key: string, value: string) => {
    const before = box.attributes[key];
    if (value === (before ?? "")) return;
    props.onEdit(value === "" ? { do: "unset", node: box.name, key } : { do: "set", node: box.name, key, value });
  };
  return (
    <section class="inspector" aria-label={`Node ${box.name}`} ref={panel} onKeyDown={(event) => event.key === "Escape" && props.onLeave()}>
      <h2>{box.name}</h2>
      {findings.map((finding) => (
        <p key={finding.message} class="problem">
          {finding.message}
        </p>
      ))}
      {!isUnit && props.values}
      <Field name="name" value={box.name} help="The name must be unique in the graph." onSet={(name) => name && props.onEdit({ do: "rename", node: box.name, name })} />
      {isUnit && (
        <Field
          name="flowunit"
          value={box.attributes.flowunit ?? ""}
          placeholder={box.unit}
          help={unit ? unit.about : "This unit is unknown."}
          choices={catalog?.units.map((one) => one.name)}
          isOpen
          onSet={(value) => set("flowunit", value)}
        />
      )}
      {options.length > 0 && <h3>Options</h3>}
      {options.map((option) => (
        <OptionField key={option.name} option={option} value={box.attributes[option.name]} planned="" onSet={(value) => set(option.name, value)} />
      ))}
      {settings.length > 0 && <h3>Execution</h3>}
      {settings.map((option) => (
        <OptionField
          key={option.name}
          option={option}
          value={box.attributes[option.name]}
          planned={planned?.[PLANNED[option.name] ?? ""] ?? ""}
          onSet={(value) => set(option.name, value)}
        />
      ))}
      {others.length > 0 && <h3>Other attributes</h3>}
      {others.map((key) => (
        <Field key={key} name={key} value={box.attributes[key]!} help="" onSet={(value) => set(key, value)} />
      ))}
      <Field name="comment" value={box.attributes.comment ?? ""} placeholder="none" help="A note above the node. It has no effect on the graph." onSet={(value) => set("comment", value)} />
      <Edges {...props} unit={unit} />
      <p>
        <button type="button" onClick={props.onRemove}>
          Remove the node
        </button>
      </p>
    </section>
  );
}

function Edges(props: Props & { unit: Unit | undefined }) {
  const { box, view } = props;
  const wires = view.picture?.wires.filter((wire) => wire.source === box.name || wire.target === box.name) ?? [];
  if (!wires.length) return null;
  return (
    <>
      <h3>Edges</h3>
      <ul class="edges">
        {wires.map((wire) => {
          const text = edgeText(wire);
          return (
            <li key={text}>
              <button type="button" class="link" onClick={() => props.onWire(wire)}>
                {text}
              </button>
              <button
                type="button"
                aria-label={`Remove the edge ${text}`}
                onClick={() => props.onEdit({ do: "disconnect", source: wire.written[0], target: wire.written[1] })}
              >
                ✕
              </button>
            </li>
          );
        })}
      </ul>
    </>
  );
}

export function edgeText(wire: Wire): string {
  return `${wire.source}:${wire.output} → ${wire.target}:${wire.input}`;
}

function OptionField(props: { option: Option; value: string | undefined; planned: string; onSet: (value: string) => void }) {
  const { option, value, planned } = props;
  const fallback = planned || (option.required ? "required" : option.default || "none");
  const help = [option.help, option.choices.length ? "" : `Type: ${option.type}.`].filter(Boolean).join(" ");
  return <Field name={option.name} value={value ?? ""} placeholder={fallback} help={help} choices={option.choices} isMissing={option.required && value === undefined} onSet={props.onSet} />;
}

interface FieldProps {
  name: string;
  value: string;
  placeholder?: string;
  help: string;
  choices?: string[];
  isOpen?: boolean;
  isMissing?: boolean;
  onSet: (value: string) => void;
}

function Field(props: FieldProps) {
  const id = useId();
  const { name, value, choices, help } = props;
  const common = { id, "aria-describedby": help ? `${id}-help` : undefined, "aria-invalid": props.isMissing || undefined, "data-field": name };
  const [first, rest] = splitHelp(help);
  const isListed = choices?.length && !props.isOpen && (value === "" || choices.includes(value));
  return (
    <div class={value ? "field given" : "field"}>
      <label for={id}>{name}</label>
      {isListed ? (
        <select {...common} value={value} onChange={(event) => props.onSet(event.currentTarget.value)}>
          <option value="">{props.placeholder}</option>
          {choices.map((choice) => (
            <option key={choice} value={choice}>
              {choice}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          key={value}
          defaultValue={value}
          placeholder={props.placeholder}
          list={props.isOpen ? `${id}-list` : undefined}
          spellcheck={false}
          autocomplete="off"
          onChange={(event) => props.onSet(event.currentTarget.value)}
        />
      )}
      {props.isOpen && (
        <datalist id={`${id}-list`}>
          {choices?.map((choice) => (
            <option key={choice} value={choice} />
          ))}
        </datalist>
      )}
      {help && (
        <small id={`${id}-help`}>
          {first}
          {rest && <span class="rest"> {rest}</span>}
        </small>
      )}
    </div>
  );
}

/** Returns the first sentence of a text, and the rest, which is shown while the field has the focus. */
function splitHelp(help: string): [string, string] {
  const end = /[.!?](?=\s+[A-Z0-9"'])/.exec(help)?.index;
  return end === undefined ? [help, ""] : [help.slice(0, end + 1), help.slice(end + 1).trim()];
}
