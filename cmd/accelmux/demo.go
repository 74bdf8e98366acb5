package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/podresources"
)

// demoConfig is the node configuration of the script. SCENARIO is replaced by the path of the
// mock backend's scenario file.
//
//go:embed demo.yaml
var demoConfig string

// demoResource is the resource in demo.yaml that the script uses.
const demoResource = "example.com/gpu"

// demoFlags are the flags of `accelmux demo`.
type demoFlags struct {
	config, profile, backendDir string
	paths                       agent.HostPaths
	watch, verbose              bool
}

func newDemoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show what a kubelet sees, without a cluster, root or hardware",
		Long: `Starts the agent with mock devices against a stand-in kubelet in a temporary
directory, and plays a script of what happens on a node: registration, an allocation,
a device that fails and recovers, a backend that is killed, a kubelet restart. It
leaves nothing behind.

With --config the agent runs with your configuration and the backends of
--backend-dir instead, and you act as kubelet: the demo reads commands, one per line,
from standard input, and "help" lists them. Use it to try a backend without a cluster.
The end of the input, "quit" or Ctrl-C ends the demo. If the commands come from a
pipe, the exit status is 1 if one of them failed.`,
		Example: `  accelmux demo
  accelmux demo --watch      # then change the devices yourself
  accelmux demo --config node.yaml --backend-dir ./bin
  echo 'alloc example.com/gpu 2' | accelmux demo --config node.yaml --backend-dir ./bin`,
		Args: arguments.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "node configuration `file`: run its backends, and read commands from standard input")
	flags.StringVar(&f.profile, "profile", "", "`name` of the profile of --config to apply (default: the only one, or the one called default)")
	flags.StringVar(&f.backendDir, "backend-dir", besideExecutable(), "`dir`ectory of the backend programs; without --config only accelmux-backend-mock is needed")
	flags.BoolVar(&f.watch, "watch", false, "after the summary, keep running and show what kubelet sees, until Ctrl-C")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "also show the agent's log, on standard error")
	hostPathFlags(cmd, &f.paths)
	arguments.Dirs(cmd, "backend-dir", "sysfs", "devfs", "procfs")
	arguments.File(cmd, "config", "yaml", "yml")
	arguments.Needs(cmd, "config", "profile", "sysfs", "devfs", "procfs")
	return cmd
}

// demo is a node in a temporary directory: a stand-in kubelet and the agent.
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

func runDemo(ctx context.Context, in io.Reader, out, logs io.Writer, f demoFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	// A closed output, as by "| head", must not kill the process before it has cleaned up.
	defer outlivePipes()()
	ctx, closed := signal.NotifyContext(ctx, syscall.SIGHUP) // nor must a closed terminal
	defer closed()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dir, err := kubelettest.TempDir("accelmux-", longestTemp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log := slog.New(slog.DiscardHandler)
	if f.verbose {
		log = slog.New(slog.NewTextHandler(logs, nil))
	}
	d := &demo{screen: newScreen(out, cancel), dir: dir, scenario: filepath.Join(dir, "scenario.yaml")}
	options := agent.Options{
		ConfigPath: f.config, Profile: f.profile, HostPaths: f.paths, Log: log, Directories: agent.Directories{BackendDir: f.backendDir},
	}
	watched := kubelettest.Options{OnEvent: d.screen.event, Log: log}
	s := newSession(d, f.config)
	if f.config != "" {
		options.Pods, options.Released, watched.OnDevices = s.pod, s.released, d.screen.devices
	} else if err := d.configure(&options); err != nil {
		return err
	}
	d.kubelet = kubelettest.New(filepath.Join(dir, "kubelet"), watched)
	defer d.kubelet.Stop()
	stop, err := d.startAgent(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	defer d.screen.close()
	if f.config != "" {
		return s.run(ctx, in)
	}
	return d.script(ctx, f.watch)
}

// check refuses flags that cannot work together, and a missing mock backend.
func (f demoFlags) check() error {
	if f.config != "" && f.watch {
		return errors.New("--watch is for the demo's own script: with --config the demo shows what happens until you end it, and the command devices lists all devices")
	}
	if f.config != "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(f.backendDir, "accelmux-backend-mock")); err != nil {
		return fmt.Errorf("the demo needs the mock backend: %w; build it with `make build`, or give its directory with --backend-dir", err)
	}
	return nil
}

// longestTemp is the longest TMPDIR, in bytes, that leaves room for the paths of the demo's
// sockets: unix(7) limits a path to 108 bytes.
const longestTemp = 20

// configure writes the script's configuration file.
func (d *demo) configure(options *agent.Options) error {
	options.ConfigPath = filepath.Join(d.dir, "node.yaml")
	// An empty sysfs hides the machine's own hardware, which the script has no backend for.
	options.HostPaths.Sysfs = filepath.Join(d.dir, "sys")
	return os.WriteFile(options.ConfigPath, []byte(strings.ReplaceAll(demoConfig, "SCENARIO", d.scenario)), 0o600)
}

// startAgent starts the agent with its directories below the demo's. stop ends the agent and
// waits for it.
func (d *demo) startAgent(ctx context.Context, options agent.Options) (stop func() error, err error) {
	options.NodeName = hostname()
	options.KubeletDir = filepath.Join(d.dir, "kubelet")
	options.CDIDir = filepath.Join(d.dir, "cdi")
	options.StateDir = filepath.Join(d.dir, "state")
	options.RunDir = filepath.Join(d.dir, "run")
	// Much shorter than on a node, so that a release is seen at once.
	options.Timing = agent.Timing{
		UsagePoll: 100 * time.Millisecond,
		Usage:     podresources.Timing{Quiet: time.Millisecond, Grace: 100 * time.Millisecond, Settle: 100 * time.Millisecond},
	}
	if d.agent, err = agent.Open(options); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- d.agent.Run(ctx) }()
	return func() error { cancel(); return <-done }, nil
}

// errLate is await's error at a timeout.
var errLate = errors.New("timed out")

// await polls until the condition is met or returns an error; errLate if ctx ends first.
func await(ctx context.Context, condition func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if met, err := condition(); met || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errLate
		case <-tick.C:
		}
	}
}
