package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// localhost is the name in both certificates.
const localhost = "localhost"

// endpoint is what the handshake announces: a program's socket and certificate.
type endpoint struct {
	path   string
	server *x509.CertPool
}

// parseHandshake parses the handshake line of a program; dir is PLUGIN_UNIX_SOCKET_DIR.
func parseHandshake(line, dir string) (endpoint, error) {
	parts := strings.Split(line, "|")
	if len(parts) != 6 {
		return endpoint{}, fmt.Errorf("it printed %q instead of 1|1|unix|<socket path>|grpc|<certificate>: nothing else may be printed before that line", line[:min(len(line), 128)])
	}
	core, version, network, path, protocol, text := parts[0], parts[1], parts[2], parts[3], parts[4], parts[5]
	switch {
	case core != strconv.Itoa(backendplugin.CoreVersion):
		return endpoint{}, fmt.Errorf("its handshake has version %q, not %d", core, backendplugin.CoreVersion)
	case version != strconv.Itoa(backendplugin.ProtocolVersion):
		return endpoint{}, fmt.Errorf("it speaks version %q of the contract, not %d", version, backendplugin.ProtocolVersion)
	case network != "unix" || filepath.Dir(filepath.Clean(path)) != dir:
		return endpoint{}, fmt.Errorf("it listens on %s %s, not on a unix socket in PLUGIN_UNIX_SOCKET_DIR", network, path)
	case protocol != "grpc":
		return endpoint{}, fmt.Errorf("it speaks %q, not grpc", protocol)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSocket == 0 {
		return endpoint{}, fmt.Errorf("there is no socket at %s, which its handshake names", path)
	}
	der, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("its certificate is not standard base64 without padding: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return endpoint{}, fmt.Errorf("its certificate is not DER: %w", err)
	}
	if err := certificate.VerifyHostname(localhost); err != nil {
		return endpoint{}, fmt.Errorf("its certificate is not for the DNS name localhost: %w", err)
	}
	if err := certificate.CheckSignature(certificate.SignatureAlgorithm, certificate.RawTBSCertificate, certificate.Signature); err != nil {
		return endpoint{}, fmt.Errorf("its certificate is not self-signed: %w", err)
	}
	e := endpoint{path: path, server: x509.NewCertPool()}
	e.server.AddCert(certificate)
	return e, nil
}

// credentials returns the credentials of a client with the certificates.
func (e endpoint) credentials(certificates ...tls.Certificate) credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		Certificates: certificates, MinVersion: tls.VersionTLS12, ServerName: localhost, RootCAs: e.server,
	})
}

// dial returns a connection, which opens at the first call.
func (e endpoint) dial(creds credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///backend",
		grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig(), grpc.WithAuthority(localhost),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", e.path)
		}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(plug.Codec()),
			grpc.MaxCallRecvMsgSize(backendplugin.MaxMessageSize), grpc.MaxCallSendMsgSize(backendplugin.MaxMessageSize)))
}

// checkClients returns an error if the server answers a client without the core's certificate, each within the limit.
func (e endpoint) checkClients(ctx context.Context, core tls.Certificate, limit time.Duration) error {
	other, _, err := plug.MutualTLS()
	if err != nil {
		return err
	}
	var wrong []string
	for _, client := range []struct {
		what  string
		creds credentials.TransportCredentials
	}{
		{"a client with another certificate", e.credentials(other.Certificates...)},
		{"a client without a certificate", e.credentials()},
		{"a client without TLS", insecure.NewCredentials()},
		{"a client with TLS 1.1", credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{core}, MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11,
			ServerName: localhost, RootCAs: e.server,
		})},
	} {
		if e.answers(ctx, client.creds, limit) {
			wrong = append(wrong, client.what)
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("it answers %s", strings.Join(wrong, ", "))
	}
	return nil
}

// answers reports whether the health service answers a client.
func (e endpoint) answers(ctx context.Context, creds credentials.TransportCredentials, limit time.Duration) bool {
	conn, err := e.dial(creds)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return answered(health(ctx, conn))
}
