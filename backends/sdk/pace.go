package sdk

import (
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

const (
	// paceRate and paceBurst are how many bytes a stream sends in a second in the long run, and
	// at once, where each message counts MessageBytes more than its size. That is three quarters
	// of what the core accepts, so that no messages queue there: the core would process them
	// before it reads the newest.
	paceRate  = backendplugin.MessageRate * backendplugin.MessageBytes * 3 / 4
	paceBurst = backendplugin.MessageBurst * backendplugin.MessageBytes * 3 / 4
	// paceWords is the time between two logs that a stream has to wait.
	paceWords = time.Minute
)

// pace limits one stream to what the core accepts. It is for one goroutine.
type pace struct {
	budget *rate.Limiter
	log    *slog.Logger
	waited bool // since the last message
	said   time.Time
}

func newPace(log *slog.Logger) *pace {
	return &pace{budget: rate.NewLimiter(paceRate, paceBurst), log: log}
}

// pause returns how long the stream must not send anything yet; not above 0 if it may.
func (p *pace) pause() time.Duration {
	pause := time.Duration(-p.budget.Tokens() / paceRate * float64(time.Second))
	p.waited = p.waited || pause > 0
	return pause
}

// sent records a message, and how many inventories were skipped before it. If the stream's
// pauses are the reason, it logs that.
func (p *pace) sent(event *backendv1.WatchResponse, between uint64) {
	now := time.Now()
	p.budget.ReserveN(now, backendplugin.MessageBytes+proto.Size(event))
	if p.waited && between > 0 && (p.said.IsZero() || now.Sub(p.said) >= paceWords) {
		p.said = now
		p.log.Warn("the inventory changes more often than it is sent: the core gets the newest each time, and not those in between; "+
			"see which devices or problems change so often", "sent_a_second", paceRate/backendplugin.MessageBytes)
	}
	p.waited = false
}
