package cluster

// transientError is one after which the same step is run again.
type transientError struct{ err error }

func (e transientError) Error() string { return e.err.Error() }
func (e transientError) Unwrap() error { return e.err }

// transient marks an error that can disappear by itself: the step that returns it
// is run again, and the status shows it as its problem meanwhile.
func transient(err error) error {
	if err == nil {
		return nil
	}
	return transientError{err}
}
