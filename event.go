package roce

import (
	"fmt"
	"sync"

	"github.com/go-roce/roce/transport"
)

// EventType says what an [Event] is about, named as in ibv_event_type.
type EventType uint8

// Asynchronous events.
const (
	EventQPFatal    EventType = iota + 1 // the queue pair failed by a fault of this end
	EventQPReqErr                        // the peer sent an invalid request
	EventAccessErr                       // the peer violated a key, a bound or an access right
	EventCommEst                         // the first packet came while in RTR
	EventSQDrained                       // the send queue is drained after a move to SQD
	EventPathMTU                         // the link no longer carries the queue pair's path MTU, which is in ERR now
	EventPortErr                         // the interface went down
	EventPortActive                      // the interface is up again
	EventGIDChange                       // local addresses came or went
	EventFatal                           // the link is gone and the device closed
)

var eventNames = [...]string{
	EventQPFatal:    "QP_FATAL",
	EventQPReqErr:   "QP_REQ_ERR",
	EventAccessErr:  "QP_ACCESS_ERR",
	EventCommEst:    "COMM_EST",
	EventSQDrained:  "SQ_DRAINED",
	EventPathMTU:    "PATH_MTU",
	EventPortErr:    "PORT_ERR",
	EventPortActive: "PORT_ACTIVE",
	EventGIDChange:  "GID_CHANGE",
	EventFatal:      "DEVICE_FATAL",
}

// String returns the verbs name without its prefix.
func (t EventType) String() string {
	if int(t) < len(eventNames) && eventNames[t] != "" {
		return eventNames[t]
	}
	return fmt.Sprintf("event %d", uint8(t))
}

// Event is an asynchronous event: something happened that no work request is told of.
type Event struct {
	Type EventType
	// QPN is the queue pair concerned, 0 when it is the device.
	QPN QPN
	// Text says in a sentence what happened.
	Text string
}

// ofQP has what each event of transport becomes.
var ofQP = map[transport.Event]struct {
	event EventType
	text  string
}{
	transport.EventQPFatal:   {EventQPFatal, "failed: it could not carry out a request of its peer"},
	transport.EventQPReqErr:  {EventQPReqErr, "failed: its peer sent an invalid request"},
	transport.EventAccessErr: {EventAccessErr, "failed: its peer used a key, address or length that no region here allows"},
	transport.EventCommEst:   {EventCommEst, "received its first packet while in RTR"},
	transport.EventSQDrained: {EventSQDrained, "has nothing in progress any more since it went to SQD"},
}

// eventBuffer is how many events wait for a slow reader.
const eventBuffer = 64

// eventQueue is a channel that loses its oldest event rather than block its writer.
type eventQueue struct {
	mu     sync.Mutex
	ch     chan Event
	closed bool
}

func newEventQueue() eventQueue { return eventQueue{ch: make(chan Event, eventBuffer)} }

func (q *eventQueue) push(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	for {
		select {
		case q.ch <- e:
			return
		default:
		}
		select {
		case <-q.ch:
		default:
		}
	}
}

func (q *eventQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.ch)
	}
}
