package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-roce/roce/cmd/rocectl/internal/lab"
)

func (a *app) labCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "lab",
		Short: "Two network namespaces joined by veth, to try things in",
		Long: `The lab is two network namespaces, roce-a and roce-b, joined by a veth pair whose ends are both called roce0:
10.77.0.1 and fd77::1 in a, 10.77.0.2 and fd77::2 in b. It needs root.`,
		Example: `  sudo rocectl lab up
  sudo rocectl lab exec b -- rocectl perf write-bw &
  sudo rocectl lab exec a -- rocectl perf write-bw 10.77.0.2
  sudo rocectl lab down`,
	})
	var mtu int
	up := &cobra.Command{
		Use:   "up",
		Short: "Make the lab",
		Args:  atMost(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			made, err := lab.Up(mtu)
			if err != nil {
				return err
			}
			if a.json {
				return a.printLab()
			}
			text := "The lab was up already:\n"
			if made {
				text = "The lab is up:\n"
			}
			fmt.Fprint(a.stdout, text)
			return a.printLab()
		},
	}
	up.Flags().IntVar(&mtu, "mtu", lab.DefaultMTU, "longest IP packet of the veth pair, in `BYTES`")
	down := &cobra.Command{
		Use:   "down",
		Short: "Remove the lab",
		Args:  atMost(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			there, err := lab.Down()
			if err != nil {
				return err
			}
			switch {
			case a.json:
				return a.printLab()
			case there:
				fmt.Fprintln(a.stdout, "The lab is gone.")
			default:
				fmt.Fprintln(a.stdout, "There was no lab.")
			}
			return nil
		},
	}
	status := &cobra.Command{
		Use:   "status",
		Short: "Say whether the lab is up",
		Args:  atMost(0, "no arguments"),
		RunE:  func(*cobra.Command, []string) error { return a.printLab() },
	}
	run := &cobra.Command{
		Use:   "exec a|b -- COMMAND [ARGUMENT...]",
		Short: "Run a command in one of the namespaces",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 && args[1] == "--" {
				args = slices.Delete(args, 1, 2)
			}
			if len(args) < 2 || args[0] != "a" && args[0] != "b" {
				return usagef("lab exec takes a or b, then -- and a command: rocectl lab exec a -- ip address")
			}
			return lab.Exec(args[0], args[1:])
		},
	}
	run.Flags().SetInterspersed(false) // what follows a or b is the command's
	c.AddCommand(up, down, status, run)
	return c
}

func (a *app) printLab() error {
	s, err := lab.Status()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	switch {
	case s.Problem != "":
		fmt.Fprintf(a.stdout, "The lab is broken: %s. \"rocectl lab up\" makes it anew.\n", s.Problem)
	case !s.Up:
		fmt.Fprintln(a.stdout, "There is no lab: rocectl lab up")
	}
	for _, side := range s.Sides {
		fmt.Fprintf(a.stdout, "  %s: namespace %s, interface %s, MTU %d, %s, %s\n",
			side.Name, side.Namespace, side.Interface, side.MTU, side.MAC, strings.Join(side.Addresses, " "))
	}
	return nil
}
