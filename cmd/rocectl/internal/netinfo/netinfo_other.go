//go:build !linux

package netinfo

import (
	"context"
	"errors"
)

var errLinux = errors.New("links onto network interfaces need Linux: only --link mem works here")

// Look reports on the interfaces, on Linux.
func Look(context.Context, string) (*Report, error) { return nil, errLinux }

// RouteTo returns the interface that leads to a host, on Linux.
func RouteTo(context.Context, string) (string, error) { return "", errLinux }

// OnlyUsable returns the only interface that can be used, on Linux.
func OnlyUsable() (string, error) { return "", errLinux }
