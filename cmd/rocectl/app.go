package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-roce/roce"
)

// Exit statuses.
const (
	exitDone   = 0
	exitFailed = 1 // the operation failed
	exitUsage  = 2 // wrong usage
)

// app is one run of the program.
type app struct {
	stdout, stderr io.Writer
	globals
	printed bool // the one JSON object
}

// globals are the flags every command has.
type globals struct {
	dev     string
	link    string
	json    bool
	pcap    string
	impair  string
	probe   time.Duration
	verbose bool
}

// usageError is a wrong use of the command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// run executes one command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{stdout: stdout, stderr: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	// A flag that was not understood ends the parsing before --json is seen.
	a.json = a.json || slices.Contains(args, "--json")
	if a.json && !a.printed {
		// --json prints exactly one object, also of a failure.
		_ = a.printJSON(struct {
			Error string `json:"error"`
		}{sentence(err)})
	}
	fmt.Fprintf(stderr, "rocectl: %s\n", sentence(err))
	if usage := new(usageError); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// sentence is an error on one line.
func sentence(err error) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", "; ")), " ")
}

// printJSON prints the one object of --json.
func (a *app) printJSON(v any) error {
	a.printed = true
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// text is where people are told things: nowhere with --json.
func (a *app) text() io.Writer {
	if a.json {
		return io.Discard
	}
	return a.stdout
}

// bar is where a progress bar may be drawn; nil with --json.
func (a *app) bar() io.Writer {
	if a.json {
		return nil
	}
	return a.stderr
}

// remark tells what --verbose asks for.
func (a *app) remark(format string, args ...any) {
	if a.verbose {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "rocectl",
		Short: "RDMA over UDP (RoCEv2) without RDMA hardware",
		Long: `rocectl tries, measures and looks at RDMA over UDP (RoCEv2) without RDMA hardware, kernel module or libibverbs.
The other end may be the same program, a hardware RNIC or Linux Soft-RoCE.

Exit status: 0 done; 1 the operation failed, for the reason on stderr; 2 wrong usage.
With --json exactly one JSON object is printed on stdout; of a command that failed it is {"error": "the reason"}.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q: see \"rocectl help\"", args[0])
			}
			return cmd.Help()
		},
	}
	f := root.PersistentFlags()
	f.StringVarP(&a.dev, "dev", "d", "", "network `INTERFACE` to use")
	f.StringVar(&a.link, "link", "auto", "`KIND` of link: auto, xdp, raw, udp or mem")
	f.BoolVar(&a.json, "json", false, "print one JSON object instead of text")
	f.StringVar(&a.pcap, "pcap", "", "write all packets to `FILE`, as pcapng with remarks")
	f.StringVar(&a.impair, "impair", "", "harm the packets sent, by `SPEC`: loss=1%,dup=0.1%,reorder=0.5%,corrupt=0.01%,delay=1ms,rate=1Gbit,ce=1%,seed=7")
	f.DurationVar(&a.probe, "probe", roce.DefaultRecovery().Probe, "ask again after a silence of this `TIME`, or longer where round trips are; 0 waits for the ACK timeout")
	f.BoolVar(&a.verbose, "verbose", false, "tell more on stderr")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w: see \"%s --help\"", err, cmd.CommandPath())
	})
	root.AddCommand(a.demoCommand(), a.infoCommand(), a.labCommand(), a.pingpongCommand(), a.perfCommand(), a.dumpCommand(), a.versionCommand())
	return root
}

// atMost is a check for the number of arguments.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("%s takes %s; %q is one argument too many", cmd.CommandPath(), what, args[n])
		}
		return nil
	}
}

// group is a command that only has subcommands.
func group(c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("there is no %s %q: see \"%s --help\"", cmd.CommandPath(), args[0], cmd.CommandPath())
		}
		return usagef("%s needs a subcommand: see \"%s --help\"", cmd.CommandPath(), cmd.CommandPath())
	}
	return c
}
