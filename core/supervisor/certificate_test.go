package supervisor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"path/filepath"
	"testing"
)

// Verifies that each side of a connection accepts only the other side's certificate of this
// start. A backend without a certificate in its handshake is not trusted.
func TestMutualTLS(t *testing.T) {
	core, certificate := newMutualTLS(t)
	backend, named := newMutualTLS(t)
	other, unknown := newMutualTLS(t)
	for name, test := range map[string]struct {
		core                    *tls.Config
		coreKnows, backendKnows string
		works                   bool
	}{
		"as it is":                   {core, named, certificate, true},
		"another core":               {other, named, certificate, false},
		"another backend":            {core, unknown, certificate, false},
		"no certificate was named":   {core, "", certificate, false},
		"the backend knows no core":  {core, named, "", false},
		"the core's own certificate": {core, certificate, certificate, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := test.core.Clone(), backend.Clone()
			client.RootCAs = pool(t, test.coreKnows)
			if test.coreKnows == "" {
				client.RootCAs = test.core.RootCAs
			}
			server.ClientCAs, server.ClientAuth = pool(t, test.backendKnows), tls.RequireAndVerifyClientCert
			if err := talk(t, client, server); (err == nil) != test.works {
				t.Errorf("the connection: %v, want one that works: %v", err, test.works)
			}
		})
	}
}

func newMutualTLS(t *testing.T) (*tls.Config, string) {
	t.Helper()
	config, certificate, err := MutualTLS()
	if err != nil {
		t.Fatal(err)
	}
	return config, certificate
}

func pool(t *testing.T, certificate string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if certificate == "" {
		return pool
	}
	block, _ := pem.Decode([]byte(certificate))
	if block == nil {
		t.Fatalf("this is no certificate: %q", certificate)
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return pool
}

// talk sends a byte to the server and back.
func talk(t *testing.T, client, server *tls.Config) error {
	t.Helper()
	listener, err := tls.Listen("unix", filepath.Join(t.TempDir(), "s"), server)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.CopyN(conn, conn, 1) // the client sees what comes of it
		_ = conn.Close()
	}()
	conn, err := tls.Dial("unix", listener.Addr().String(), client)
	if err == nil {
		_, err = conn.Write([]byte{1})
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		_ = conn.Close()
	}
	_ = listener.Close()
	<-served
	return err
}
