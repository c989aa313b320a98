//go:build race

package memreg

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What the package documentation promises of race builds: a program that touches a
// buffer with ordinary code while the endpoint may copy it is reported. The test runs
// itself, because a report makes a test binary fail.
func TestCopy_IsReportedAgainstOrdinaryAccess(t *testing.T) {
	const as = "MEMREG_RACE"
	b := words(64)
	accesses := map[string]func(){
		"writing what is being received": func() { b[9] = 1 },
		"reading what is being received": func() { _ = b[9] + b[10] },
		"writing what is being sent":     func() { b[41] = 1 },
	}
	if f := accesses[os.Getenv(as)]; f != nil {
		done := make(chan struct{})
		go func() {
			Copy(b[:32], make([]byte, 32)) // receive
			Copy(make([]byte, 32), b[32:]) // send
			close(done)
		}()
		f()
		<-done
		return
	}
	for name := range accesses {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$")
			cmd.Env = append(os.Environ(), as+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "DATA RACE") || !strings.Contains(string(out), "memreg.Copy") {
				t.Errorf("no report: %v\n%s", err, out)
			}
		})
	}
}
