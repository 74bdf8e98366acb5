package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/accelmux/accelmux/cmd/accelmux/memory"
	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/condition"
	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/core/plug"
)

const (
	// maxProcs bounds GOMAXPROCS: the agent has little to compute.
	maxProcs = 4
	// reservedThreads is above the number of threads that the agent needs at once: one for
	// each of maxProcs, for each backend process, and for each file being read or written.
	reservedThreads = 32
)

// intervals are the agent's. The zero value has the defaults; the build tag chaos sets shorter
// ones.
var intervals agent.Timing

func newRunCommand() *cobra.Command {
	run := runFlags{Options: agent.Options{Timing: intervals}}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent on this node",
		Long: `Runs the agent in the foreground until SIGTERM or SIGINT: starts the profile's
backends, registers its resources with kubelet, and serves them.

The configuration file is watched: a change takes effect at once. A file with errors
is refused: the last good one stays in force, and "accelmux status" shows a problem.

In a pod, or with --kubeconfig, the agent watches the labels of its own Node: they
choose the profile, unless --profile does, and a change of them takes effect at
once. Important changes and problems are written as Events on the Node.

With --take-over a newer agent can replace a running one: it starts its
backends and waits on standby. When the running agent gets SIGTERM, it stores its
state, and answers kubelet until kubelet is connected to the newer one. Both need the
same --state-dir, and each needs its own --run-dir. Without --take-over an agent exits
with an error while another one uses the --state-dir.`,
		Example: `  accelmux run --config /etc/accelmux/node.yaml
  accelmux run --config node.yaml --profile gpu --backend-dir ./bin`,
		Args: arguments.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer outlivePipes()() // the agent must not die because its log cannot be written
			log, err := newLogger(cmd.ErrOrStderr(), run.level, run.format)
			if err != nil {
				return err
			}
			run.Log = log
			memory.Limit("/", log)
			if err := run.kubelet(cmd); err != nil {
				return err
			}
			if runtime.GOMAXPROCS(0) > maxProcs && os.Getenv("GOMAXPROCS") == "" {
				runtime.GOMAXPROCS(maxProcs)
			}
			plug.ReserveThreads(reservedThreads)
			defer run.reap(cmd.Context())()
			return runInCluster(cmd.Context(), run.Options, run.kubeconfig)
		},
	}
	run.add(cmd)
	return cmd
}

// runFlags are the values of the flags of `accelmux run`.
type runFlags struct {
	agent.Options
	level, format, kubeconfig string
}

// add adds the flags to the command.
func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.ConfigPath, "config", defaultConfig, "node configuration `file`")
	flags.StringVar(&f.Profile, "profile", "", "`name` of the profile to apply, regardless of the node's labels (default: the one that the labels choose; without an API server the only one, or the one called default)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` for the API server (default: in a pod its service account, otherwise none)")
	flags.StringVar(&f.NodeName, "node-name", hostname(), "`name` of this node's Node object")
	flags.StringVar(&f.KubeletDir, "kubelet-dir", kubeletdir.Default, "`dir`ectory in which kubelet has device-plugins, the same with any --root-dir")
	flags.StringVar(&f.KubeletRootDir, "kubelet-root-dir", "", "kubelet's root `dir`ectory, its --root-dir (default: --kubelet-dir if that is set, else the running kubelet's)")
	flags.StringVar(&f.CDIDir, "cdi-dir", defaultCDIDir, "`dir`ectory for CDI specs; the container runtime must read it")
	flags.StringVar(&f.StateDir, "state-dir", defaultStateDir, "`dir`ectory for state that must survive a restart; one active agent uses it")
	flags.StringVar(&f.HostStateDir, "host-state-dir", "", "the state `dir`ectory's path on the node, where the container runtime starts a program in it (default: --state-dir)")
	flags.StringVar(&f.RunDir, "run-dir", defaultRunDir, "`dir`ectory for this process's sockets: the admin socket and the backends'")
	flags.BoolVar(&f.TakeOver, "take-over", false, "if another agent uses the state directory, start the backends and wait on standby until that agent ends (default: exit with an error)")
	flags.StringVar(&f.BackendDir, "backend-dir", defaultBackendDir, "`dir`ectory of the backend programs and their manifests; only its owner may have write permission")
	flags.StringToStringVar(&f.Launchers, "launcher", nil, "have the program of a backend started in a container of its own, by the launcher at a socket: `PROGRAM=SOCKET`; may be repeated")
	flags.StringVar(&f.MetricsAddress, "metrics-address", "", "serve /metrics and a page of the node over HTTP on this `address`, such as :8417 (default: not served)")
	flags.StringVar(&f.ProbeAddress, "probe-address", "", "answer kubelet's probes, /livez and /readyz, over HTTP on this `address`, such as :8418 (default: not answered)")
	flags.BoolVar(&f.NodeCondition, "node-condition", false, "write the condition "+string(condition.Type)+" into the status of this node's Node; the account needs the verb patch on nodes/status")
	flags.StringVar(&f.FeaturesDir, "features-dir", "", "`dir`ectory for a feature file about this node's devices; Node Feature Discovery must read it (default: none is written)")
	hostPathFlags(cmd, &f.HostPaths)
	logFlags(cmd, &f.level, &f.format)
	completeDirs(cmd, "kubelet-dir", "kubelet-root-dir", "cdi-dir", "state-dir", "host-state-dir", "run-dir", "backend-dir", "features-dir")
	cobra.CheckErr(cmd.MarkFlagFilename("config", "yaml", "yml"))
	cobra.CheckErr(cmd.MarkFlagFilename("kubeconfig"))
}

// kubelet makes kubelet's directories absolute: registrations name sockets below them, and kubelet has another
// working directory. If neither is given, the agent finds kubelet's root directory.
func (f *runFlags) kubelet(cmd *cobra.Command) (err error) {
	flags := cmd.Flags()
	f.FindKubelet = !flags.Changed("kubelet-dir") && !flags.Changed("kubelet-root-dir")
	for _, dir := range []*string{&f.KubeletDir, &f.KubeletRootDir} {
		if *dir == "" {
			continue
		}
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	return nil
}

// logFlags adds the flags of newLogger.
func logFlags(cmd *cobra.Command, level, format *string) {
	cmd.Flags().StringVar(level, "log-level", "info", "lowest `level` to log: debug, info, warn, error")
	cmd.Flags().StringVar(format, "log-format", "text", "log `format`: text, json")
	for flag, values := range map[string][]string{"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"}} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
}

// hostPathFlags adds the flags for the host's trees.
func hostPathFlags(cmd *cobra.Command, paths *agent.HostPaths) {
	flags := cmd.Flags()
	flags.StringVar(&paths.Sysfs, "sysfs", "/sys", "root `dir`ectory of sysfs, for backends; absolute")
	flags.StringVar(&paths.Devfs, "devfs", "/dev", "root `dir`ectory of device nodes, for backends; absolute")
	flags.StringVar(&paths.Procfs, "procfs", "/proc", "root `dir`ectory of procfs, for the boot ID and for backends; absolute")
	completeDirs(cmd, "sysfs", "devfs", "procfs")
}

// reap makes this process the parent of orphaned backend processes and reaps them, until end is
// called.
func (f *runFlags) reap(ctx context.Context) (end func()) {
	reaper, err := plug.NewReaper()
	if err != nil {
		f.Log.Warn("cannot reap orphaned processes of backends", "error", err)
		return func() {}
	}
	f.Reaper = reaper
	ctx, end = context.WithCancel(context.WithoutCancel(ctx))
	go reaper.Run(ctx)
	return end
}

// runInCluster runs the agent, with a client of the API server if one is configured.
func runInCluster(ctx context.Context, options agent.Options, kubeconfig string) error {
	// Client libraries log through klog.
	klog.SetSlogLogger(options.Log)
	config, err := kubeapi.Config(kubeconfig)
	switch {
	case errors.Is(err, kubeapi.ErrNone):
		return agent.Run(ctx, options)
	case err != nil && kubeconfig == "" && options.Profile != "":
		options.Log.Warn("the API server is not configured: no Events are written on the Node", "error", err)
		return agent.Run(ctx, options)
	case err != nil:
		return err
	}
	client, err := kubeapi.Connect(config)
	if err != nil {
		return err
	}
	defer client.Close()
	options.Cluster = client
	return agent.Run(ctx, options)
}

func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: use one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch strings.ToLower(format) {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: use one of text, json", format)
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return strings.ToLower(name)
}
