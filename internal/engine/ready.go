package engine

// readyList is the queue pairs that may have something to deliver or to send, in
// the order in which they get their turn. Each is on it once.
type readyList struct {
	first, last *QP
	n           int
}

func (r *readyList) push(q *QP) {
	if q.ready {
		return
	}
	q.ready, q.next = true, nil
	if r.last == nil {
		r.first = q
	} else {
		r.last.next = q
	}
	r.last = q
	r.n++
}

// pushFront gives q, which has just been popped, its place back.
func (r *readyList) pushFront(q *QP) {
	q.ready, q.next = true, r.first
	r.first = q
	if r.last == nil {
		r.last = q
	}
	r.n++
}

func (r *readyList) pop() *QP {
	q := r.first
	r.first = q.next
	if r.first == nil {
		r.last = nil
	}
	q.ready, q.next = false, nil
	r.n--
	return q
}

// remove takes q off the list, for which it walks along it: only destruction does.
func (r *readyList) remove(q *QP) {
	if !q.ready {
		return
	}
	for range r.n {
		if x := r.pop(); x != q {
			r.push(x)
		}
	}
}
