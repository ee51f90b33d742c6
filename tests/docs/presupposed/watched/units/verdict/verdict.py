import modelflow


class Verdict(modelflow.FlowUnit):
    def process(self, ctx: modelflow.Context) -> None:
        ctx.emit_each(lambda buffer: len(buffer.data))
