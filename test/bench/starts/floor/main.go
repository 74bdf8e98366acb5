// Command floor is what a start of the agent is measured by: the smallest host of
// hashicorp/go-plugin, which starts the smallest plugin over gRPC, itself. It writes a
// line when its first call is answered. Then it waits until its standard input is closed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
)

// method is the only one that the plugin has, with empty messages both ways.
const method = "/floor.Floor/Call"

var handshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "FLOOR", MagicCookieValue: "floor"}

func main() {
	if os.Getenv(handshake.MagicCookieKey) != "" {
		plugin.Serve(&plugin.ServeConfig{
			HandshakeConfig: handshake, Plugins: plugin.PluginSet{"floor": floor{}}, GRPCServer: plugin.DefaultGRPCServer,
			Logger: hclog.NewNullLogger(),
		})
		return
	}
	if err := host(); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

// host starts the plugin, with mutual TLS as go-plugin makes it, or with -plain without.
func host() (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: handshake, Plugins: plugin.PluginSet{"floor": floor{}}, Cmd: exec.Command(self), //nolint:noctx // Kill ends it
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, AutoMTLS: !slices.Contains(os.Args, "-plain"), Logger: hclog.NewNullLogger(),
	})
	defer client.Kill()
	protocol, err := client.Client()
	if err != nil {
		return err
	}
	raw, err := protocol.Dispense("floor")
	if err != nil {
		return err
	}
	conn, ok := raw.(*grpc.ClientConn)
	if !ok {
		return fmt.Errorf("the plugin is a %T", raw)
	}
	if err := conn.Invoke(context.Background(), method, &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
		return err
	}
	if _, err := fmt.Println("answered"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// floor is the plugin.
type floor struct{ plugin.NetRPCUnsupportedPlugin }

// GRPCServer implements plugin.GRPCPlugin.
//
//nolint:unparam // the interface has it
func (f floor) GRPCServer(_ *plugin.GRPCBroker, server *grpc.Server) error {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "floor.Floor", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Call", Handler: answer}},
	}, f)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin: it gives the connection itself.
func (floor) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	if conn == nil {
		return nil, errors.New("there is no connection")
	}
	return conn, nil
}

//nolint:revive // its type is gRPC's
func answer(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	return &emptypb.Empty{}, decode(&emptypb.Empty{})
}
