package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-roce/roce"
	"github.com/go-roce/roce/cmd/rocectl/internal/netinfo"
	"github.com/go-roce/roce/link"
)

// checkLink refuses kinds of link that a command cannot use. Two processes have no memory link between them.
func (a *app) checkLink(mem bool) error {
	switch a.link {
	case "auto", "raw":
		return nil
	case "mem":
		if mem {
			return nil
		}
		return usagef("--link mem joins devices of one process, and here are two: use raw, or \"rocectl demo\"")
	case "xdp", "udp":
		return usagef("--link %s is not available in this version: use raw", a.link)
	}
	return usagef("--link %q is none of auto, xdp, raw, udp, mem", a.link)
}

// impairment is what --impair asks for.
func (a *app) impairment() (link.Impairment, error) {
	if a.impair == "" {
		return link.Impairment{}, nil
	}
	i, err := link.ParseImpairment(a.impair)
	if err != nil {
		return i, usagef("--impair: %w", err)
	}
	return i, nil
}

// interfaceFor is the interface to use when talking to host, or to whoever comes if host is "".
func (a *app) interfaceFor(ctx context.Context, host string) (name string, err error) {
	switch {
	case a.dev != "":
		return a.dev, nil
	case host != "":
		name, err = netinfo.RouteTo(ctx, host)
	default:
		name, err = netinfo.OnlyUsable()
	}
	if err == nil {
		a.remark("using interface %s", name)
	}
	return name, err
}

// device is an open device with what must be closed after it.
type device struct {
	*roce.Device
	pcap *os.File
}

// open opens the device to talk to host with. manual lets the command drive it itself.
func (a *app) open(ctx context.Context, host string, manual bool) (*device, error) {
	if err := a.checkLink(false); err != nil {
		return nil, err
	}
	impair, err := a.impairment()
	if err != nil {
		return nil, err
	}
	name, err := a.interfaceFor(ctx, host)
	if err != nil {
		return nil, err
	}
	d := new(device)
	recovery := roce.DefaultRecovery()
	recovery.Probe = a.probe
	cfg := &roce.Config{Link: a.link, Manual: manual, Impair: impair, Recovery: &recovery}
	if d.pcap, err = a.createPcap(); err != nil {
		return nil, err
	}
	if d.pcap != nil {
		cfg.Pcap = d.pcap
	}
	if d.Device, err = roce.Open(ctx, name, cfg); err != nil {
		if d.pcap != nil {
			d.pcap.Close()
			os.Remove(d.pcap.Name()) // it holds nothing
		}
		return nil, err
	}
	info := d.Info()
	a.remark("link %s (%s)", info.Kind, info.Mode)
	for _, r := range info.Reasons {
		a.remark("  %s", r)
	}
	return d, nil
}

// createPcap makes the file of --pcap; nil without it.
func (a *app) createPcap() (*os.File, error) {
	if a.pcap == "" {
		return nil, nil
	}
	f, err := os.Create(a.pcap)
	if err != nil {
		return nil, fmt.Errorf("cannot write the packets: %w", err)
	}
	return f, nil
}

// Close closes the device and then the file that its packets went to.
func (d *device) Close() error {
	err := d.Device.Close()
	if d.pcap != nil {
		if e := d.pcap.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("cannot finish %s: %w", d.pcap.Name(), e))
		}
	}
	return err
}
