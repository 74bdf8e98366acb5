package plug

import (
	"crypto/tls"
	"crypto/x509"
	"net"
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
			if err := talk(client, server); (err == nil) != test.works {
				t.Errorf("the connection: %v, want one that works: %v", err, test.works)
			}
		})
	}
}

func newMutualTLS(t *testing.T) (*tls.Config, string) {
	t.Helper()
	config, certificate, err := MutualTLS()
	must(t, err)
	return config, certificate
}

func pool(t *testing.T, certificate string) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if certificate != "" && !pool.AppendCertsFromPEM([]byte(certificate)) {
		t.Fatalf("this is no certificate: %q", certificate)
	}
	return pool
}

// talk has the server send a byte to the client.
func talk(client, server *tls.Config) error {
	ours, theirs := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_, _ = tls.Server(theirs, server).Write([]byte{1}) // the client sees what comes of it
		_ = theirs.Close()
	}()
	_, err := tls.Client(ours, client).Read(make([]byte, 1))
	_ = ours.Close()
	<-served
	return err
}
