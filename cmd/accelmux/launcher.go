package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/launcher"
	"github.com/accelmux/accelmux/core/plug"
)

func newLauncherCommand() *cobra.Command {
	var o launcher.Options
	var backendDir, program, level, format string
	cmd := &cobra.Command{
		Use:   "launcher",
		Short: "Start a backend for the agent in this container",
		Long: `Runs in a container of its own beside the agent, and starts the program of a backend there whenever the agent asks
for it (accelmux run --launcher), so that the backend has the rights of this container and not the agent's. The two
containers share the directory above the socket's, and both have the program and its manifest in their --backend-dir.

After SIGTERM it starts no more programs, and ends when the agent has ended the last one.`,
		Example: "  accelmux launcher --program accelmux-backend-nvidia --socket /run/accelmux-backends/nvidia/shared/launcher.sock",
		Args:    arguments.None,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if program == "" || o.Socket == "" {
				return errors.New("set --program and --socket; `accelmux launcher --help` has an example")
			}
			defer outlivePipes()() // the backend must not end because the launcher's log cannot be written
			if o.Log, err = newLogger(cmd.ErrOrStderr(), level, format); err != nil {
				return err
			}
			reaper, err := plug.NewReaper()
			if err != nil {
				return err
			}
			ctx, end := context.WithCancel(context.WithoutCancel(cmd.Context()))
			defer end()
			go reaper.Run(ctx)
			// The agent connects to the backend's socket by its group.
			unix.Umask(0o007)
			o.Prepare, o.Find = plug.Launched(backendDir, program, reaper), plug.FindLaunched()
			return launcher.Serve(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&program, "program", "", "file `name` of the only program that it starts")
	flags.StringVar(&o.Socket, "socket", "", "`path` of the launcher's socket, in a directory that it makes")
	flags.StringVar(&backendDir, "backend-dir", defaultBackendDir, "`dir`ectory of the backend programs and their manifests; only its owner may have write permission")
	logFlags(cmd, &level, &format)
	arguments.Dirs(cmd, "backend-dir")
	cobra.CheckErr(cmd.MarkFlagFilename("socket"))
	return cmd
}
