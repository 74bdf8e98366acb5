package kubeletdir

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Connect returns a connection to one of kubelet's sockets, which its first call makes. It is for one call, or a few: gRPC
// would notice another kubelet late.
func Connect(socket string, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///kubelet", append(options,
		grpc.WithAuthority("localhost"), // the socket's name is none
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}))...)
}
