package roce

import "fmt"

// EventType says what an [Event] is about, named as in ibv_event_type.
type EventType uint8

// Asynchronous events.
const (
	EventQPFatal    EventType = iota + 1 // the queue pair failed by a fault of this end
	EventQPReqErr                        // the peer sent an invalid request
	EventAccessErr                       // the peer violated a key, a bound or an access right
	EventCommEst                         // the first packet came while in RTR
	EventSQDrained                       // the send queue is drained after a move to SQD
	EventPortErr                         // the interface went down
	EventPortActive                      // the interface is up again
	EventGIDChange                       // local addresses came or went
)

var eventTypeNames = [...]string{
	EventQPFatal:    "QP_FATAL",
	EventQPReqErr:   "QP_REQ_ERR",
	EventAccessErr:  "QP_ACCESS_ERR",
	EventCommEst:    "COMM_EST",
	EventSQDrained:  "SQ_DRAINED",
	EventPortErr:    "PORT_ERR",
	EventPortActive: "PORT_ACTIVE",
	EventGIDChange:  "GID_CHANGE",
}

// String returns the verbs name without its prefix.
func (t EventType) String() string {
	if int(t) < len(eventTypeNames) && eventTypeNames[t] != "" {
		return eventTypeNames[t]
	}
	return fmt.Sprintf("event %d", uint8(t))
}

// Event is an asynchronous event: something happened that no work request is told of.
type Event struct {
	Type EventType
	// QPN is the queue pair concerned, 0 when it is the device.
	QPN QPN
	// Text says in a sentence what happened and what to do.
	Text string
}
