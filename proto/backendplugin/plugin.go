// Package backendplugin is the go-plugin side of the contract: the handshake and
// the limits that core and backends must agree on. It is the one place, next to
// the generated code, that both import.
package backendplugin

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const (
	// ProtocolVersion is the version of the contract in
	// proto/accelmux/backend/v1, negotiated in the handshake.
	ProtocolVersion = 1
	// Name is the key of the backend service in the plugin sets.
	Name = "backend"
	// MaxMessageSize bounds every message in both directions, in bytes.
	MaxMessageSize = 16 << 20
	// FirstInventory is how long a backend may take for its first inventory.
	FirstInventory = 10 * time.Second
	// DefaultHeartbeat holds where WatchRequest names no interval.
	DefaultHeartbeat = 10 * time.Second
)

// Handshake tells a backend that the core started it, and the core that it
// started a backend. It is no secret and no security measure.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "ACCELMUX_BACKEND",
	MagicCookieValue: "8b3f0d2c-accelmux-backend",
}

// Plugin connects the generated service to go-plugin. Impl is set in a
// backend only; in the core, dispensing [Name] gives a
// backendv1.BackendServiceClient.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin
	Impl backendv1.BackendServiceServer
}

var _ plugin.GRPCPlugin = (*Plugin)(nil)

// GRPCServer registers the backend's service.
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.Impl == nil {
		return errors.New("backendplugin: no server to register")
	}
	backendv1.RegisterBackendServiceServer(s, p.Impl)
	return nil
}

// GRPCClient returns a backendv1.BackendServiceClient.
func (p *Plugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return backendv1.NewBackendServiceClient(c), nil
}

// Versions is what a backend with this server, or the core with a nil one,
// speaks: contract version to plugin set.
func Versions(server backendv1.BackendServiceServer) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{
		ProtocolVersion: {Name: &Plugin{Impl: server}},
	}
}
