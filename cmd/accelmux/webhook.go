package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/accelmux/accelmux/cmd/arguments"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/dra/webhook"
)

// webhookFlags are the values of the flags of `accelmux webhook`.
type webhookFlags struct {
	config, backendDir, listen, cert, key, level, format string
}

func newWebhookCommand() *cobra.Command {
	var f webhookFlags
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Check the parameters of claims and device classes for the API server",
		Long: `Serves a validating admission webhook by HTTPS until SIGTERM or SIGINT. It checks the
opaque parameters of ResourceClaims, ResourceClaimTemplates and DeviceClasses
(resource.k8s.io v1, v1beta1, v1beta2) for the drivers of the node configuration:
backends[].dra.driver, by default <backend>.accelmux.io. Parameters for other drivers
are not checked.

The schemas are those of the manifests in the backend directory; no program is started, nor
needed. Parameters for the driver of a backend without a usable manifest are accepted with
a warning. Configuration and manifests are read once; the certificate is read again when it
changes.`,
		Example: `  accelmux webhook --config node.yaml --tls-cert tls.crt --tls-key tls.key`,
		Args:    arguments.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(cmd.ErrOrStderr(), f.level, f.format)
			if err != nil {
				return err
			}
			return f.serve(cmd.Context(), log)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", defaultConfig, "node configuration `file` that names the backends and their drivers")
	flags.StringVar(&f.backendDir, "backend-dir", defaultBackendDir, "`dir`ectory of the backend programs; only its owner may have write permission")
	flags.StringVar(&f.listen, "listen", ":8443", "`address` to serve HTTPS on: "+webhook.Path+", /healthz and /readyz")
	flags.StringVar(&f.cert, "tls-cert", "/etc/accelmux/tls/tls.crt", "PEM `file` of the certificate for the webhook's service")
	flags.StringVar(&f.key, "tls-key", "/etc/accelmux/tls/tls.key", "PEM `file` of its key")
	logFlags(cmd, &f.level, &f.format)
	arguments.Dirs(cmd, "backend-dir")
	arguments.File(cmd, "config", "yaml", "yml")
	arguments.File(cmd, "tls-cert")
	arguments.File(cmd, "tls-key")
	return cmd
}

// serve serves until ctx ends.
func (f *webhookFlags) serve(ctx context.Context, log *slog.Logger) error {
	loaded, err := config.Load(f.config)
	if err != nil {
		return err
	}
	certificate, err := webhook.LoadCertificate(f.cert, f.key, log)
	if err != nil {
		return fmt.Errorf("%w; --tls-cert and --tls-key name its files", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	reviewer := webhook.New(loaded, f.backendDir, log)
	log.Info("the webhook is ready", "address", listener.Addr().String())
	return webhook.Serve(ctx, listener, reviewer, certificate, log)
}
