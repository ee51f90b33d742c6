"""``httpserver_sync_reply`` on the CPU."""

from flowunits.httpserver_sync_reply import HttpserverSyncReplyOptions
from modelflow import Buffer, Context, FlowUnit
from modelflow.http.listener import PendingRequest
from modelflow.http.reply import Reply, reply_of, reply_of_error, reply_of_failure
from modelflow.http.request_source import REQUEST


class HttpserverSyncReply(FlowUnit):
    """Passes replies to the thread of the HTTP server."""

    is_any_thread = True

    def open(self, config: HttpserverSyncReplyOptions) -> None:
        """Stores the options."""
        self._content_type = config.content_type
        self._is_told = config.expose_errors

    def process(self, ctx: Context) -> None:
        """Answers the session's request with its first buffer and drops the other buffers.

        Raises:
            ValueError: the session has no request, or the buffer holds no valid reply.
        """
        request = ctx.session.get(REQUEST)
        if not isinstance(request, PendingRequest):
            raise ValueError(
                "in_reply_info: the session has no request to answer; expected buffers that began "
                "at a httpserver_sync_receive"
            )
        del ctx.session[REQUEST]
        try:
            request.answer(self._reply(ctx.input()[0], request))
        except ValueError as error:
            request.answer(reply_of_failure(error))
            raise

    def _reply(self, buffer: Buffer, request: PendingRequest) -> Reply:
        if buffer.error is not None:
            return reply_of_error(buffer.error, is_told=self._is_told)
        return reply_of(buffer, self._content_type, request.headers)
