package transport

// Event is an affiliated asynchronous event of a queue pair, named as in
// ibv_event_type (IBA 11.6.3).
type Event uint8

// Asynchronous events.
const (
	EventNone      Event = iota
	EventQPFatal         // the queue pair failed by its own fault
	EventQPReqErr        // the peer sent an invalid request
	EventAccessErr       // the peer violated a key, bound or access right
	EventCommEst         // the first packet came while in RTR
	EventSQDrained       // the send queue is drained after a move to SQD
)

var eventNames = [...]string{"NONE", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED"}

// String returns the verbs name without its prefix.
func (e Event) String() string {
	if int(e) < len(eventNames) {
		return eventNames[e]
	}
	return "UNKNOWN"
}
