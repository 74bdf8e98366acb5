package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/usage"
)

// demoConfig is the node configuration of the demo; SCENARIO stands for the path
// of the file that drives the mock devices.
//
//go:embed demo.yaml
var demoConfig string

// demoResource is the resource of demo.yaml that the script plays with.
const demoResource = "example.com/gpu"

func newDemoCommand() *cobra.Command {
	var backendDir string
	var watch, verbose bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what a kubelet sees, without a cluster, root or hardware",
		Long: `Starts the agent with mock devices against a stand-in kubelet in a temporary
directory, and plays what happens on a node: registration, an allocation, a
device that fails and recovers, a backend that is killed, a kubelet restart.
It ends by itself, and leaves nothing behind.`,
		Example: `  accelmux demo
  accelmux demo --watch      # stay, and play with the devices yourself`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), backendDir, watch, verbose)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&backendDir, "backend-dir", besideExecutable(), "`dir`ectory of accelmux-backend-mock")
	flags.BoolVar(&watch, "watch", false, "stay after the summary until Ctrl-C, and show what kubelet sees")
	flags.BoolVarP(&verbose, "verbose", "v", false, "show the agent's log too, on standard error")
	completeDirs(cmd, "backend-dir")
	return cmd
}

// demo is a node in a temporary directory.
type demo struct {
	screen   *screen
	dir      string
	kubelet  *kubelettest.Kubelet
	agent    *agent.Agent
	scenario string
	results  []result
}

// result is one line of the summary.
type result struct {
	what string
	took time.Duration
	err  error
}

func runDemo(ctx context.Context, out, logs io.Writer, backendDir string, watch, verbose bool) (err error) {
	if _, err := os.Stat(filepath.Join(backendDir, "accelmux-backend-mock")); err != nil {
		return fmt.Errorf("the demo needs the mock backend: %w; build it with `make build`, or name its directory with --backend-dir", err)
	}
	// Also when nobody reads any more what it shows, as after "| head", nothing is left behind.
	defer outlivePipes()()
	ctx, unread := context.WithCancelCause(ctx)
	defer unread(nil)
	dir, err := kubelettest.TempDir("accelmux-", longestTemp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := slog.New(slog.DiscardHandler)
	if verbose {
		log = slog.New(slog.NewTextHandler(logs, nil))
	}
	d := &demo{screen: newScreen(out, unread), dir: dir, scenario: filepath.Join(dir, "scenario.yaml")}
	d.kubelet = kubelettest.New(filepath.Join(dir, "kubelet"), kubelettest.Options{OnEvent: d.screen.event, Log: log})
	defer d.kubelet.Stop()
	stop, err := d.startAgent(ctx, backendDir, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	d.play(ctx)
	if ctx.Err() != nil {
		d.screen.mute()
		return context.Cause(ctx)
	}
	failed := d.summary()
	if watch {
		d.watch(ctx)
	}
	d.screen.mute()
	return failed
}

// longestTemp is how long the name of TMPDIR may be, in bytes, to leave the demo's sockets
// room below it: unix(7) has 108 bytes for a path.
const longestTemp = 20

// startAgent writes the configuration and starts the agent; stop waits for its
// end.
func (d *demo) startAgent(ctx context.Context, backendDir string, log *slog.Logger) (stop func() error, err error) {
	config := filepath.Join(d.dir, "node.yaml")
	text := strings.ReplaceAll(demoConfig, "SCENARIO", d.scenario)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	d.agent, err = agent.Open(agent.Options{
		ConfigPath: config,
		NodeName:   hostname(),
		KubeletDir: filepath.Join(d.dir, "kubelet"),
		CDIDir:     filepath.Join(d.dir, "cdi"),
		StateDir:   filepath.Join(d.dir, "state"),
		RunDir:     filepath.Join(d.dir, "run"),
		BackendDir: backendDir,
		// Not the machine's own hardware: the demo has no backend for it.
		HostPaths: agent.HostPaths{Sysfs: filepath.Join(d.dir, "sys")},
		Log:       log,
		// A node waits longer before it believes that a pod is gone.
		Timing: agent.Timing{
			UsagePoll: 100 * time.Millisecond,
			Usage:     usage.Timing{Quiet: time.Millisecond, Grace: 100 * time.Millisecond, Settle: 100 * time.Millisecond},
		},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- d.agent.Run(ctx) }()
	return func() error { cancel(); return <-done }, nil
}

// watch stays until the user has seen enough.
func (d *demo) watch(ctx context.Context) {
	d.screen.title("Your turn (Ctrl-C ends it)")
	d.screen.say("Write a scenario to %s, for example:", d.scenario)
	d.screen.say("    %s", strings.ReplaceAll(strings.TrimSpace(scenarioFault), "\n", "\n      "))
	d.screen.say("Ask the agent:  %s devices --run-dir %s", os.Args[0], filepath.Join(d.dir, "run"))
	d.screen.say("                %s status --run-dir %s", os.Args[0], filepath.Join(d.dir, "run"))
	d.screen.say("                %s topology explain -n 4 --run-dir %s", os.Args[0], filepath.Join(d.dir, "run"))
	<-ctx.Done()
	d.screen.say("")
}

// summary prints what was shown, and returns an error if a part of it failed.
func (d *demo) summary() error {
	d.screen.title("Summary")
	var failed []error
	for _, r := range d.results {
		mark, note := "ok", r.took.Round(time.Millisecond).String()
		if r.err != nil {
			mark, note = "FAILED", r.err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", r.what, r.err))
		}
		d.screen.say("%-7s %-62s %s", mark, r.what, note)
	}
	return errors.Join(failed...)
}
