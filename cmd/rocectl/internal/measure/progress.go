package measure

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// quiet is how long a run goes without a bar: what is over sooner needs none.
const quiet = time.Second

// Bar shows on a terminal how far a run has come. A nil Bar shows nothing.
type Bar struct {
	once          sync.Once
	stop, stopped chan struct{}
}

// Terminal reports whether w is one.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Show watches done grow to total, on w if that is a terminal. After a second it begins to draw. It costs the run
// nothing but the counting in done.
func Show(w io.Writer, what string, total uint64, done *atomic.Uint64) *Bar {
	if !Terminal(w) {
		return nil
	}
	b := &Bar{stop: make(chan struct{}), stopped: make(chan struct{})}
	go b.run(w, what, total, done)
	return b
}

// Stop takes the bar off the terminal. It may be called again.
func (b *Bar) Stop() {
	if b != nil {
		b.once.Do(func() { close(b.stop) })
		<-b.stopped
	}
}

func (b *Bar) run(w io.Writer, what string, total uint64, done *atomic.Uint64) {
	defer close(b.stopped)
	select {
	case <-b.stop:
		return
	case <-time.After(quiet):
	}
	bar := progressbar.NewOptions64(int64(total),
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			_ = bar.Clear() // the terminal is not there any more
			return
		case <-tick.C:
			_ = bar.Set64(int64(min(done.Load(), total)))
		}
	}
}
