package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Exec replaces this process by a program in the namespace of side a or b, so that signals and the exit status are the
// program's own. It returns only if that fails.
func Exec(side string, args []string) error {
	var s *Side
	for i := range Sides {
		if Sides[i].Name == side {
			s = &Sides[i]
		}
	}
	if s == nil {
		return fmt.Errorf("the lab has sides a and b, not %q", side)
	}
	program, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("cannot run %s: %w", args[0], errors.Unwrap(err))
	}
	runtime.LockOSThread() // the namespaces are the thread's, and the program inherits them from this one
	ns, err := netns.GetFromName(s.Namespace)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return errors.New("the lab is not up: rocectl lab up")
		}
		return fmt.Errorf("cannot open the namespace %s: %w", s.Namespace, err)
	}
	if err := netns.Set(ns); err != nil {
		return privilege(fmt.Errorf("cannot enter %s: %w", s.Namespace, err))
	}
	if err := ownSysfs(); err != nil {
		return privilege(fmt.Errorf("cannot show the program the /sys of %s: %w", s.Namespace, err))
	}
	if err := syscall.Exec(program, args, os.Environ()); err != nil {
		return fmt.Errorf("cannot run %s: %w", program, err)
	}
	return nil
}

// ownSysfs makes /sys show the interfaces of the present network namespace, to this thread and what it runs.
func ownSysfs() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: nothing there
		return err
	}
	return unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_NOSUID, "")
}
