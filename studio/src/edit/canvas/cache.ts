// A component that is rendered again only if its properties have changed.

import { Component, type ComponentChild, type FunctionComponent, h } from "preact";

export function memo<Props extends object>(
  draw: FunctionComponent<Props>,
  areSame: (one: Props, other: Props) => boolean,
): FunctionComponent<Props & { key?: string }> {
  class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Props): boolean {
      return !areSame(this.props as Props, next);
    }
    render(props: Props): ComponentChild {
      return h(draw, props as any);
    }
  }
  return ((props: Props) => h(Memo as any, props as any)) as FunctionComponent<Props & { key?: string }>;
}
