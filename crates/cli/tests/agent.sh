# An agent that refunds orders. It asks for each, waits until a person has decided, and goes on by what came of it.
for order in "$@"; do
    countersign actions run --integration shop --action refund "order=$order" amount:=40 --reason "order $order came broken" \
        >"$order.json" 2>"$order.log"
    case $? in
        0) echo "$order refunded" ;;
        5) echo "$order denied" ;;
        6) echo "$order not answered in time" ;;
        *) echo "$order failed" ;;
    esac
done
