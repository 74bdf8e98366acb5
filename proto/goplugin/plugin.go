// Package goplugin is the contract in the terms of github.com/hashicorp/go-plugin,
// with which the core starts backends. A backend does without: what go-plugin
// brings along would be a third of its program.
package goplugin

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// Name is the key of the backend service in the plugin sets.
const Name = "backend"

// Handshake is the magic value, for go-plugin.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   backendplugin.CookieKey,
	MagicCookieValue: backendplugin.CookieValue,
}

// Plugin connects the generated service to go-plugin. Impl is set where a test
// plays a backend; in the core, dispensing [Name] gives a
// backendv1.BackendServiceClient.
type Plugin struct {
	plugin.NetRPCUnsupportedPlugin
	Impl backendv1.BackendServiceServer
}

var _ plugin.GRPCPlugin = (*Plugin)(nil)

// GRPCServer registers the backend's service.
func (p *Plugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.Impl == nil {
		return errors.New("goplugin: no server to register")
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
		backendplugin.ProtocolVersion: {Name: &Plugin{Impl: server}},
	}
}
