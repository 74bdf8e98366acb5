// Command bare is a backend written from backend.proto alone: gRPC and TLS, but
// neither the SDK nor go-plugin. It shows that the contract's text is enough for
// a backend in another language.
package main

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
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, `{"@level":"error","@message":%q}`+"\n", err)
		os.Exit(1)
	}
}

func run() error {
	if os.Getenv("ACCELMUX_BACKEND") != "8b3f0d2c-accelmux-backend" {
		return errors.New("this is an accelmux backend; accelmux starts it")
	}
	if !slices.Contains(strings.Split(os.Getenv("PLUGIN_PROTOCOL_VERSIONS"), ","), "1") {
		return errors.New("the core does not speak version 1 of the contract")
	}
	config, certificate, err := mutualTLS()
	if err != nil {
		return err
	}
	socket := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "bare")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.MaxRecvMsgSize(16<<20))
	alive := health.NewServer()
	alive.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, alive)
	backendv1.RegisterBackendServiceServer(server, bare{revision: new(atomic.Uint64)})
	fmt.Printf("1|1|unix|%s|grpc|%s\n", socket, base64.RawStdEncoding.EncodeToString(certificate))
	return server.Serve(listener)
}

// mutualTLS is the server's side, with a certificate made on the spot.
func mutualTLS() (config *tls.Config, certificate []byte, err error) {
	core := x509.NewCertPool()
	if !core.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT"))) {
		return nil, nil, errors.New("PLUGIN_CLIENT_CERT holds no certificate")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: core, MinVersion: tls.VersionTLS12,
	}, certificate, nil
}

// bare has one device that is always well.
type bare struct {
	backendv1.UnimplementedBackendServiceServer
	revision *atomic.Uint64
}

func (bare) Describe(context.Context, *backendv1.DescribeRequest) (*backendv1.DescribeResponse, error) {
	return &backendv1.DescribeResponse{Name: "bare", Vendor: "Nobody", Version: "1.0.0", Classes: []string{"device"}, Needs: &backendv1.Needs{Env: []string{"BARE"}}}, nil
}

func (b bare) Configure(_ context.Context, request *backendv1.ConfigureRequest) (*backendv1.ConfigureResponse, error) {
	b.revision.Store(request.GetRevision())
	return &backendv1.ConfigureResponse{}, nil
}

func (b bare) Watch(request *backendv1.WatchRequest, stream backendv1.BackendService_WatchServer) error {
	inventory := &backendv1.Inventory{Generation: 1, SettingsRevision: b.revision.Load(), Devices: []*backendv1.Device{{
		Id: "bare-0", Class: "device", Health: &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY},
		Edits: &backendv1.ContainerEdits{Env: map[string]string{"BARE": "0"}},
	}}}
	if err := stream.Send(&backendv1.WatchResponse{Event: &backendv1.WatchResponse_Inventory{Inventory: inventory}}); err != nil {
		return err
	}
	beat := time.NewTicker(request.GetHeartbeatInterval().AsDuration())
	defer beat.Stop()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-beat.C:
			if err := stream.Send(&backendv1.WatchResponse{Event: &backendv1.WatchResponse_Heartbeat{Heartbeat: &backendv1.Heartbeat{}}}); err != nil {
				return err
			}
		}
	}
}
