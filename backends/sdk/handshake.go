package sdk

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/proto/backendplugin"
)

const (
	// socketName is the socket's name in the directory that the core made for it.
	socketName = "backend.sock"
	// certificateLife is longer than any process runs; a clock that is up to clockSkew behind at
	// the start does no harm.
	certificateLife, clockSkew = 30 * 365 * 24 * time.Hour, time.Minute
)

// endpoint is the socket at which the core connects to this backend.
//
// The handshake is that of go-plugin, core version 1, as docs/handshake.md describes it. It is
// implemented here without go-plugin's server, whose net/rpc, templates and logger would be a
// third of every backend's program, and as much of its memory.
type endpoint struct {
	listener net.Listener
	// tls accepts only the core; nil if it has no certificate, as in tests.
	tls  *tls.Config
	line string
}

// listen opens the socket.
func listen(ctx context.Context, getenv func(string) string) (_ *endpoint, err error) {
	dir := getenv(backendplugin.SocketDirKey)
	if dir == "" {
		return nil, fmt.Errorf("the environment variable %s names no directory for the socket", backendplugin.SocketDirKey)
	}
	e, certificate := &endpoint{}, ""
	if core := getenv(backendplugin.ClientCertKey); core != "" {
		if e.tls, err = mutualTLS([]byte(core)); err != nil {
			return nil, fmt.Errorf("prepare TLS: %w", err)
		}
		certificate = base64.RawStdEncoding.EncodeToString(e.tls.Certificates[0].Certificate[0])
	}
	path := filepath.Join(dir, socketName)
	if e.listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", path); err != nil {
		return nil, fmt.Errorf("open the socket: %w", err)
	}
	e.line = fmt.Sprintf("%d|%d|unix|%s|grpc|%s\n", backendplugin.CoreVersion, backendplugin.ProtocolVersion, path, certificate)
	return e, nil
}

// mutualTLS returns the server's configuration, which accepts only a client with that PEM
// certificate. The server's own certificate is made for this start.
func mutualTLS(client []byte) (*tls.Config, error) {
	core := x509.NewCertPool()
	if !core.AppendCertsFromPEM(client) {
		return nil, fmt.Errorf("the environment variable %s holds no certificate", backendplugin.ClientCertKey)
	}
	own, err := selfSigned()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: core,
		MinVersion: tls.VersionTLS12,
	}, nil
}

// selfSigned returns a certificate for the name that the core expects.
func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	const name = "localhost"
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-clockSkew), NotAfter: time.Now().Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, // its own issuer
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}, err
}

// takeStdout points file descriptor 1 to /dev/null, and returns a file for its former target,
// since nothing but the handshake may reach the core. A vendor's C library that writes to
// descriptor 1 would corrupt the handshake before it, and fill a pipe after it.
func takeStdout() (_ *os.File, err error) {
	// Programs that the backend runs must not inherit it: they would hold the core's pipe open.
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("keep standard output for the handshake: %w", err)
	}
	out := os.NewFile(uintptr(fd), "handshake")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(unix.Dup2(int(null.Fd()), 1), null.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("point standard output to %s: %w", os.DevNull, errors.Join(err, out.Close()))
	}
	return out, nil
}
