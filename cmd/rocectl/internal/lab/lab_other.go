//go:build !linux

package lab

import "errors"

var errLinux = errors.New("the lab is made of network namespaces, which only Linux has")

// Up makes the lab, on Linux.
func Up(int) (bool, error) { return false, errLinux }

// Down removes the lab, on Linux.
func Down() (bool, error) { return false, errLinux }

// Status looks at the lab, on Linux.
func Status() (*State, error) { return nil, errLinux }

// Exec runs a program in the lab, on Linux.
func Exec(string, []string) error { return errLinux }
