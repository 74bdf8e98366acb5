package plug

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

const (
	// certificateLife is longer than any process runs; clockSkew is how late the clock may be
	// at the start.
	certificateLife, clockSkew = 30 * 365 * 24 * time.Hour, time.Minute
	// certificateName is the name in both certificates; go-plugin's backends use it.
	certificateName = "localhost"
)

// MutualTLS returns the core's TLS configuration for one connection to a backend, with a
// certificate for this start only, also as PEM for the backend. RootCAs is empty: the
// backend's certificate comes with its handshake.
//
// It is go-plugin's AutoMTLS with another curve: creating and verifying a certificate on
// P-521, for which Go has no optimized code, takes as long as the rest of a backend's start.
func MutualTLS() (config *tls.Config, certificate string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: certificateName}, DNSNames: []string{certificateName},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, // its own issuer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("make a certificate: %w", err)
	}
	config = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS12, ServerName: certificateName,
		// Empty until the handshake: the system's roots are not trusted.
		RootCAs: x509.NewCertPool(),
	}
	return config, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
