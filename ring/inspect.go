package ring

import "sync/atomic"

// Status is what the words of a ring say about it.
type Status struct {
	Capacity       int    // bytes of the data area
	Start          uint64 // position of the first record
	Tail           uint64 // position behind the last published record, as the producer noted it
	Head           uint64 // position of the first record that isn't released
	ProducerTaken  bool   // the writing side was acquired
	ConsumerTaken  bool   // the reading side was acquired
	ProducerClosed bool   // nothing follows at Tail
	ConsumerClosed bool   // nothing will be read any more
}

// Inspect reads the status of a ring from outside, for people: of a live ring, whose
// words move while they are read, or of one whose processes have died. It only
// loads, so read-only memory will do. A producer that dies in Publish may leave Tail
// one batch behind. It fails with ErrFormat when mem is not a ring.
func Inspect(mem []byte) (Status, error) {
	v, start, err := attach(mem)
	if err != nil {
		return Status{}, err
	}
	head := atomic.LoadUint64(&v.ctl.consumer.head)
	tail := atomic.LoadUint64(&v.ctl.producer.tail)
	next := atomic.LoadUint64(&v.words[v.slot(tail)])
	return Status{
		Capacity:       int(v.capacity),
		Start:          start,
		Tail:           tail,
		Head:           head &^ headClosed,
		ProducerTaken:  atomic.LoadUint64(&v.ctl.producer.owner) != 0,
		ConsumerTaken:  atomic.LoadUint64(&v.ctl.consumer.owner) != 0,
		ProducerClosed: next == kindEnd|markerBits|lapOf(tail, v.shift),
		ConsumerClosed: head&headClosed != 0,
	}, nil
}
