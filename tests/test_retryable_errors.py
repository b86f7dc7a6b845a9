"""Which errors a job queue may retry: decided for every class, in one table."""

import copy
import pickle

import pytest

from tests.test_errors import ALL_ERRORS, made
from vidgen_async import Outcome, errors
from vidgen_async.errors import FINAL_NAMES, RETRYABLE, RETRYABLE_NAMES, VidgenError

#: Running the job again can succeed, and cannot pay twice.
MAY_RETRY = {
    # the worker is shutting down
    "ClientStateError",
    # a create: nothing was sent, or the service's own submission limit refused it
    "JournalError", "NotSentError", "RejectedRateLimitError",
    # another process sends it
    "StillSendingError",
    # reads
    "TransportError", "BodyError", "ConnectError", "ConnectionLostError", "KeyFunctionError", "ProtocolError",
    "ResponseTimeoutError", "TransportClosedError",
    "GatewayError", "NotReadyError", "RateLimitError", "ServiceUnavailableError", "UnexpectedResponseError",
    # the task is running, or its video is complete at the service
    "WaitTimeoutError", "DownloadError", "LinkExpiredError", "NotVideoError", "TruncatedError", "UnverifiedVideoError",
}  # fmt: skip
#: An operator decides, or something has to be changed first.
FINAL = {
    "VidgenError", "ConfigurationError", "InvalidRequestError",
    "ServiceError", "BadRequestError", "EmptyReferenceAssetError", "InvalidReferenceImageError",
    "ReferenceAssetExpiredError", "UnsupportedReferenceURLError", "AuthenticationError", "InsufficientCreditsError",
    "NotFoundError",
    "BudgetExceededError", "CreateError", "UncertainCreateError", "ReceiptNotStoredError", "OrderConflictError",
    "RejectedError", "RejectedBadRequestError", "RejectedEmptyReferenceAssetError",
    "RejectedInvalidReferenceImageError", "RejectedReferenceAssetExpiredError",
    "RejectedUnsupportedReferenceURLError", "RejectedAuthenticationError", "RejectedInsufficientCreditsError",
    "RejectedNotFoundError", "RejectedUnexpectedResponseError",
    "OrderStateError", "TaskFailedError", "TargetExistsError",
    "CassetteError", "CassetteNotFoundError", "CassetteInvalidError", "CassetteVersionError", "CassetteBusyError",
    "CassetteMissError", "CassetteExhaustedError", "CassetteUnusedError", "CassetteSecretError",
}  # fmt: skip


def test_it_is_decided_for_every_class_of_the_tree_whether_it_may_be_retried():
    assert {kind.__name__ for kind in ALL_ERRORS if kind.may_retry} == MAY_RETRY
    assert {kind.__name__ for kind in ALL_ERRORS if not kind.may_retry} == FINAL


def test_the_lists_of_names_are_all_names_of_the_tree():
    assert sorted(MAY_RETRY) == RETRYABLE_NAMES
    assert sorted(FINAL) == FINAL_NAMES


def test_no_error_of_a_retryable_class_is_final():
    errors_made = [made(kind) for kind in ALL_ERRORS]
    final = [error for error in errors_made if isinstance(error, RETRYABLE) and not error.may_retry]
    assert [type(error) for error in final] == [errors.BudgetExceededError], "it sends nothing before there is room"


def test_only_a_class_with_a_final_subclass_is_missing_among_the_retryable_classes():
    missing = {kind.__name__ for kind in ALL_ERRORS if kind.may_retry and not issubclass(kind, RETRYABLE)}
    assert missing == {"DownloadError", "UnexpectedResponseError"}


def test_a_receipt_that_was_not_stored_is_an_outcome_of_a_create_and_no_failure_before_it():
    assert issubclass(errors.ReceiptNotStoredError, errors.CreateError)
    assert not issubclass(errors.ReceiptNotStoredError, (errors.JournalError, *RETRYABLE))


def test_a_class_of_the_users_own_has_the_decision_of_its_base_class():
    class OwnError(VidgenError):
        pass

    class OwnConnectError(errors.ConnectError):
        pass

    assert (OwnError().may_retry, OwnConnectError().may_retry) == (False, True)
    assert "OwnConnectError" not in RETRYABLE_NAMES


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_copies_and_json_documents_have_the_decision(kind):
    error = made(kind)
    twins = [pickle.loads(pickle.dumps(error)), copy.deepcopy(error)]  # noqa: S301 - our own pickle
    assert [twin.may_retry for twin in twins] == [error.may_retry] * 2
    assert Outcome(task_id="t", error=error).to_dict()["error"]["may_retry"] is error.may_retry


def test_an_error_of_another_package_is_final_in_a_json_document():
    assert Outcome(task_id="t", error=ZeroDivisionError("x")).to_dict()["error"]["may_retry"] is False
