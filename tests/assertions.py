"""Programs that assert: pytest rewrites assertions in the test modules themselves."""


def of_a_tensor(x):
    assert x > -5, "too small"
    assert x != 0, f"zero {x}"
    return x


def with_a_message_made_when_it_fails(x):
    def message():
        print("making the message")
        return "too large"

    assert x < 100, message()
    return x
