// Package wake has how one goroutine wakes another that has something to do: by a channel
// of one slot. Further signals are lost while one is pending, so the receiver must take the
// newest state, not count signals.
package wake

// Send puts a signal into a channel with one slot, unless one is pending. It does not block.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
