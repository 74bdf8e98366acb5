// Package backendplugin is what core and backends must agree on beyond the
// messages: the handshake and the limits. It is the one place, next to the
// generated code, that both import.
package backendplugin

import "time"

const (
	// ProtocolVersion is the version of the contract in
	// proto/accelmux/backend/v1, negotiated in the handshake.
	ProtocolVersion = 1
	// MaxMessageSize bounds every message in both directions, in bytes.
	MaxMessageSize = 8 << 20
	// MaxMessageMemory bounds the core's estimate of the memory that a message of a backend takes,
	// in bytes. All devices of an inventory count, also those that did not change.
	MaxMessageMemory = 20 << 20
	// MaxDevices is how many devices an inventory may list.
	MaxDevices = 4096
	// FirstInventory is how long a backend may take for its first inventory.
	FirstInventory = 10 * time.Second
	// MessageRate is how many messages of a Watch stream the core takes in a second in the
	// long run. A heartbeat comes at most ten times a second, and each report costs a
	// round of everything that follows.
	MessageRate = 20
	// MessageBurst is how many it takes at once.
	MessageBurst = 50
	// MessageBytes of a message count as one message more: what a report costs grows with
	// it, and so does the memory that it takes on its way. A report of 8 MiB is taken four
	// times a second.
	MessageBytes = 2 << 20
	// DefaultHeartbeat holds where WatchRequest names no interval.
	DefaultHeartbeat = 10 * time.Second
)

// The environment variables and words of the handshake, which docs/handshake.md
// describes.
const (
	// CookieKey and CookieValue tell a backend that the core started it. They are
	// no secret and no security measure.
	CookieKey   = "ACCELMUX_BACKEND"
	CookieValue = "8b3f0d2c-accelmux-backend"
	// SocketDirKey is the directory for the backend's socket.
	SocketDirKey = "PLUGIN_UNIX_SOCKET_DIR"
	// ClientCertKey is the core's certificate, PEM.
	ClientCertKey = "PLUGIN_CLIENT_CERT"
	// CoreVersion is the version of the handshake itself, which is go-plugin's.
	CoreVersion = 1
	// HealthService is what is SERVING in grpc.health.v1.Health.
	HealthService = "plugin"
)
