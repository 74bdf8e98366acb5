package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/core/agent"
)

func newRunCommand() *cobra.Command {
	var options agent.Options
	var level, format string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent on this node",
		Long: `Runs the agent in the foreground until SIGTERM or SIGINT: starts the profile's
backends, registers its resources with kubelet, and serves them.

The configuration file is watched: a change takes effect at once, a bad one is
refused and the last good one stays in force ("accelmux status" says so).`,
		Example: `  accelmux run --config /etc/accelmux/node.yaml
  accelmux run --config node.yaml --profile gpu --backend-dir ./bin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(cmd.ErrOrStderr(), level, format)
			if err != nil {
				return err
			}
			options.Log = log
			return runAgent(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.ConfigPath, "config", defaultConfig, "node configuration `file`")
	flags.StringVar(&options.Profile, "profile", "", "`name` of the profile to apply (default: the only one, or the one called default)")
	flags.StringVar(&options.NodeName, "node-name", hostname(), "`name` of this node")
	flags.StringVar(&options.KubeletDir, "kubelet-dir", defaultKubeletDir, "kubelet's root `dir`ectory")
	flags.StringVar(&options.CDIDir, "cdi-dir", defaultCDIDir, "`dir`ectory for CDI specs, one that the container runtime reads")
	flags.StringVar(&options.StateDir, "state-dir", defaultStateDir, "`dir`ectory for what must survive a restart, and for the admin socket")
	flags.StringVar(&options.BackendDir, "backend-dir", defaultBackendDir, "`dir`ectory of the backend programs; nobody but its owner may write to it")
	flags.StringVar(&options.HostPaths.Sysfs, "sysfs", "/sys", "root `dir`ectory of sysfs, for backends")
	flags.StringVar(&options.HostPaths.Devfs, "devfs", "/dev", "root `dir`ectory of device nodes, for backends")
	flags.StringVar(&options.HostPaths.Procfs, "procfs", "/proc", "root `dir`ectory of procfs, for the boot ID and for backends")
	flags.StringVar(&level, "log-level", "info", "least `level` to log: debug, info, warn, error")
	flags.StringVar(&format, "log-format", "text", "log `format`: text, json")
	completeDirs(cmd, "kubelet-dir", "cdi-dir", "state-dir", "backend-dir", "sysfs", "devfs", "procfs")
	cobra.CheckErr(cmd.MarkFlagFilename("config", "yaml", "yml"))
	for flag, values := range map[string][]string{"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"}} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	return cmd
}

// runAgent runs until ctx ends. Being told to stop is success.
func runAgent(ctx context.Context, options agent.Options) error {
	running, err := agent.Open(options)
	if err != nil {
		return err
	}
	return running.Run(ctx)
}

func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch strings.ToLower(format) {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: one of text, json", format)
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return strings.ToLower(name)
}
